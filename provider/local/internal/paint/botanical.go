package paint

import "math"

// botanical is a page from a herbarium: a few stems of one kind, grown from
// rules, painted in glazes so that leaves shine through one another.
func botanical(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	s.paperGround()
	kind := s.species()
	stems := 3 + s.IntN(3)
	if kind.fronds {
		stems = 2 + s.IntN(2)
	}
	root := vec{w * s.between(0.44, 0.56), h + 20*u}
	for _, i := range s.Perm(stems) {
		t := (float64(i) + 0.5) / float64(stems)
		lean := (t - 0.5) * s.between(1.1, 1.5)
		tall := h * (0.93 - 0.45*math.Abs(t-0.5)) * s.between(0.86, 1.04)
		foot := root.add(vec{(t - 0.5) * w * 0.07, 0})
		tip := vec{foot.x + math.Tan(lean)*tall*0.62 + s.NormFloat64()*12*u, h - tall}
		tip.x = min(max(tip.x, 0.1*w), 0.9*w)
		bend := foot.lerp(tip, 0.5).add(vec{-math.Sin(lean)*tall*0.3 + s.NormFloat64()*20*u, -tall * 0.08})
		s.stem(quad(foot, bend, tip, 60), kind, tall)
	}
	s.splatter(26)
	s.vignette(0.1)
	s.grain(s.noise, 0.03)
}

// species is what the stems of one picture have in common.
type species struct {
	leaf, second rgb
	flower       rgb
	pairs        int     // of leaves on a stem
	slender      float64 // width of a leaf per length
	length       float64 // of the largest leaf, per height of the stem
	pitch        float64 // angle between leaf and stem
	fronds       bool    // leaves made of leaflets
	bloom        int     // 0 none, 1 berries, 2 umbel, 3 blossoms
}

func (s *scene) species() species {
	k := species{
		leaf: s.accents[s.IntN(2)], second: s.accents[2+s.IntN(2)], flower: s.accents[5],
		pairs: 7 + s.IntN(6), slender: s.between(0.2, 0.46), length: s.between(0.17, 0.25),
		pitch: s.between(0.7, 1.05), fronds: s.Float64() < 0.35, bloom: s.IntN(4),
	}
	if k.fronds {
		k.pairs, k.length, k.bloom = 9+s.IntN(3), k.length*1.1, s.IntN(3)
	}
	return k
}

// stem grows leaves in pairs along a line, the largest at a third of its length.
func (s *scene) stem(line []vec, k species, tall float64) {
	u := s.unit()
	s.fill(k.leaf.mix(s.ink, 0.3), 0.85, over, ribbon(line, taper(7*u, 1.6*u)))
	for i := range k.pairs {
		t := 0.16 + 0.82*float64(i)/float64(k.pairs-1)
		at := int(t * float64(len(line)-2))
		p, dir := line[at], line[at+1].sub(line[at])
		along := math.Atan2(dir.y, dir.x)
		size := tall * k.length * math.Pow(math.Sin(math.Pi*(0.12+0.86*math.Pow(t, 0.72))), 0.8)
		for _, side := range []float64{-1, 1} {
			angle := along + side*k.pitch*(1.08-0.5*t)*s.between(0.88, 1.12)
			length := size * s.between(0.85, 1.1)
			if k.fronds {
				s.frond(p, angle, side, length, k)
			} else {
				s.leaf(p, angle, side, length, length*k.slender, k.leaf.mix(k.second, s.Float64()*0.8))
			}
		}
	}
	s.bloom(line, k, tall)
}

// leaf is a blade with a curved midrib: two glazes that overlap, and veins.
func (s *scene) leaf(at vec, angle, side, length, width float64, col rgb) {
	u := s.unit()
	curl := side * s.between(-0.1, 0.32)
	mid := at.to(angle, length*0.5)
	tip := at.to(angle+curl, length)
	rib := quad(at, mid, tip, 18)
	blade := func(t float64) float64 { return width * math.Pow(math.Sin(math.Pi*math.Pow(t, 0.8)), 0.9) }
	shape := ribbon(rib, blade)
	n := s.noise + noise(s.IntN(1000))
	glazeMode := glaze
	if s.dark {
		glazeMode = over
	}
	wash := func(x, y float64) (rgb, float64) {
		v := n.fbm(x/(70*u), y/(70*u), 2)
		t := clamp01(vec{x, y}.sub(at).len() / length)
		return col, clamp01(0.78 - 0.28*t + 0.26*v)
	}
	s.fillWith(wash, glazeMode, shape)
	half := append(append([]vec(nil), shape[:len(rib)]...), reversed(rib)...)
	s.fill(col.mix(s.ink, 0.15), 0.26, glazeMode, half)
	vein := s.paper.mix(col, 0.3)
	s.fill(vein, 0.7, over, ribbon(rib[:len(rib)-2], taper(math.Max(2.2*u, 0.7), 0.3)))
	for i := 3; i < len(rib)-4; i += 2 {
		t := float64(i) / float64(len(rib)-1)
		dir := rib[i+1].sub(rib[i])
		a := math.Atan2(dir.y, dir.x)
		for _, sd := range []float64{-1, 1} {
			end := rib[i].to(a+sd*0.75, blade(t)*0.52)
			s.fill(vein, 0.32, over, ribbon([]vec{rib[i], end}, taper(math.Max(1.2*u, 0.5), 0.2)))
		}
	}
}

// frond is a leaf made of leaflets, as ferns have them.
func (s *scene) frond(at vec, angle, side, length float64, k species) {
	u := s.unit()
	rib := quad(at, at.to(angle, length*0.55), at.to(angle+side*0.3, length), 24)
	s.fill(k.leaf, 0.8, over, ribbon(rib, taper(2.6*u, 0.5)))
	for i := 2; i < len(rib)-1; i++ {
		t := float64(i) / float64(len(rib)-1)
		dir := rib[i+1].sub(rib[i])
		a := math.Atan2(dir.y, dir.x)
		size := length * 0.3 * math.Pow(1-t, 0.7)
		for _, sd := range []float64{-1, 1} {
			tip := rib[i].to(a+sd*1.05, size)
			col := k.leaf.mix(k.second, t*0.7+0.25*s.Float64())
			leaflet := quad(rib[i], rib[i].to(a+sd*1.25, size*0.55), tip, 7)
			s.fill(col, 0.72, over, ribbon(leaflet, func(t float64) float64 {
				return size * 0.3 * math.Sin(math.Pi*math.Pow(t, 0.7))
			}))
		}
	}
}

// bloom crowns a stem.
func (s *scene) bloom(line []vec, k species, tall float64) {
	u := s.unit()
	tip := line[len(line)-1]
	back := line[len(line)-6]
	up := math.Atan2(tip.y-back.y, tip.x-back.x)
	switch k.bloom {
	case 1:
		for range 9 + s.IntN(6) {
			p := line[len(line)-1-s.IntN(len(line)*2/5)]
			end := p.to(up+s.NormFloat64()*1.1, s.between(18, 44)*u)
			s.fill(k.leaf, 0.8, over, ribbon([]vec{p, end}, even(1.6*u)))
			s.berry(end, s.between(8, 13)*u, k.flower)
		}
	case 2:
		for i := range 17 {
			a := up + (float64(i)/16-0.5)*2.1
			end := tip.to(a, tall*0.085*s.between(0.85, 1.1))
			s.fill(k.leaf, 0.8, over, ribbon(quad(tip, tip.to(up, tall*0.04), end, 8), even(1.3*u)))
			for range 6 {
				s.disc(end.add(vec{s.NormFloat64() * 5 * u, s.NormFloat64() * 5 * u}), s.between(2.5, 5)*u, k.flower.vary(s.NormFloat64()*0.05, 0), 0.8, over)
			}
		}
	case 3:
		s.blossom(tip, tall*s.between(0.06, 0.085), up, k)
	}
}

// berry is a round fruit with a spark of light.
func (s *scene) berry(at vec, r float64, col rgb) {
	s.disc(at, r, col.vary(s.NormFloat64()*0.04, 0), 0.95, over)
	s.disc(at.add(vec{r * 0.15, r * 0.2}), r*0.72, col.mix(s.ink, 0.3), 0.25, over)
	s.disc(at.add(vec{-r * 0.32, -r * 0.35}), r*0.24, hex(0xffffff), 0.7, over)
}

// blossom is an open flower seen from the side.
func (s *scene) blossom(at vec, r, up float64, k species) {
	petals := 7 + s.IntN(4)
	for ring := range 2 {
		for i := range petals {
			a := up + (float64(i)+0.5*float64(ring))/float64(petals)*2*math.Pi
			reach := r * (1.15 - 0.4*float64(ring)) * s.between(0.9, 1.08)
			petal := quad(at, at.to(a, reach*0.6), at.to(a+s.NormFloat64()*0.12, reach), 12)
			col := k.flower.mix(s.paper, s.between(0.05, 0.4))
			s.fill(col, 0.72, over, ribbon(petal, func(t float64) float64 { return reach * 0.5 * math.Pow(math.Sin(math.Pi*math.Pow(t, 1.3)), 0.8) }))
		}
	}
	for range 22 {
		s.disc(at.to(s.between(0, 6.3), r*0.22*math.Sqrt(s.Float64())), r*0.05, s.accents[3].vary(s.NormFloat64()*0.08, 0), 0.95, over)
	}
}

// splatter lets a few drops fall from the brush.
func (s *scene) splatter(n int) {
	u := s.unit()
	for range n {
		at := vec{s.Float64() * float64(s.w), s.Float64() * float64(s.h)}
		s.disc(at, u*(1+7*math.Pow(s.Float64(), 4)), s.accent(), s.between(0.12, 0.4), over)
	}
}

func reversed(line []vec) []vec {
	out := make([]vec, len(line))
	for i, p := range line {
		out[len(line)-1-i] = p
	}
	return out
}
