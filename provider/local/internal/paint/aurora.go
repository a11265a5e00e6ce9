package paint

import "math"

// aurora is a polar night: stars, curtains of light, snow mountains and a lake
// that mirrors them all.
func aurora(s *scene) {
	h := float64(s.h)
	shore := h * s.between(0.7, 0.78)
	// Nights are dark whatever the prompt's colours are.
	night := newRamp(s.air.at(0).vary(-0.12, 0).mix(hex(0x03060f), 0.72), s.air.at(0.15).mix(hex(0x08122a), 0.7), s.air.at(0.5).mix(hex(0x173056), 0.6))
	s.shade(func(_, y float64, _ rgb) rgb { return night.at(y / shore) })
	s.stars(shore, 1)
	for i := range 3 {
		s.curtain(float64(i)/2, shore)
	}
	s.mountains(shore, 0.30, 0, night.at(1))
	s.mountains(shore, 0.17, 1, night.at(1))
	s.lake(shore)
	s.firs(shore, night.at(0))
	s.vignette(0.3)
	s.grain(s.noise, 0.04)
}

// stars are many faint and few bright ones, the brightest with a halo.
func (s *scene) stars(bottom, strength float64) {
	u := s.unit()
	for range 520 {
		at := vec{s.Float64() * float64(s.w), s.Float64() * bottom}
		b := math.Pow(s.Float64(), 8)
		tint := hex(0xfff1d8).lerp(hex(0xcfe0ff), s.Float64())
		s.disc(at, (0.55+1.5*b)*math.Max(u, 0.5)*1.15, tint, strength*(0.22+0.78*b), light)
		if b > 0.75 {
			s.glow(at, 17*u, tint, 0.35*b*strength)
		}
	}
}

// curtain hangs one sheet of light from a wandering line; t is 0 to 1 and moves
// it from far and dim to near and bright.
func (s *scene) curtain(t, shore float64) {
	scale := float64(min(s.w, s.h))
	n := s.noise + noise(31+t*400)
	low, high := hex(0x46f0a8), hex(0x8a5cf0)
	if t == 0.5 {
		low, high = hex(0x4fd8e0), hex(0xc05ad8)
	}
	low, high = low.mix(s.accents[2], 0.18), high.mix(s.accents[3], 0.25)
	base := shore * (0.46 + 0.28*t + s.between(-0.05, 0.05))
	tall := shore * s.between(0.36, 0.6)
	strength := s.between(0.5, 0.72)
	phase := s.between(0, 40)
	for x := 0; x < s.w && s.live(); x++ {
		fx := float64(x) / scale
		foot := base + scale*(0.13*n.fbm(fx*1.15+phase, 0.5, 3)+0.02*n.at(fx*6, 9))
		rays := 0.45 + 0.55*smooth(-0.5, 0.8, n.fbm(fx*9+1.4*n.at(fx*2, 4), 3.3, 3))
		swell := smooth(-0.55, 0.5, n.at(fx*1.3+phase, 21)) * strength
		reach := tall * (0.7 + 0.5*n.at(fx*3.1, 12)) * (0.7 + 0.5*rays)
		for y := max(int(foot-reach*1.25), 0); y < min(int(foot+scale*0.05), int(shore)); y++ {
			up := (foot - float64(y)) / reach
			var v float64
			if up < 0 {
				v = math.Exp(up * up * -900 * (reach / scale) * (reach / scale))
			} else {
				v = math.Exp(-2.6*up) * smooth(1.25, 0.5, up)
			}
			p := &s.pix[y*s.w+x]
			*p = p.add(low.lerp(high, smooth(0.08, 0.75, up)).scale(v * rays * swell * 0.9))
		}
	}
}

// mountains is a chain of mountains with snow on the sides that face the light.
func (s *scene) mountains(shore, height, t float64, air rgb) {
	scale := float64(min(s.w, s.h))
	n := s.noise + noise(900+t*70)
	rock := hex(0x0a1220).mix(air, 0.5-0.35*t)
	snow := hex(0xb9cfe6).mix(air, 0.5-0.22*t).scale(0.55)
	for x := 0; x < s.w && s.live(); x++ {
		fx := float64(x) / scale
		top := shore - scale*height*(0.25+0.85*n.ridged(fx*(1.5+t), 0.4, 5))
		for y := max(int(top)-1, 0); y < int(shore); y++ {
			d := (float64(y) + 0.5 - top) / scale
			cover := clamp01(d*scale + 0.5)
			// The light comes from the left: what rises to the right is bright.
			rx, ry := fx*3.4+d*1.3, d*4.2
			facet := n.ridged(rx+0.05, ry, 4) - n.ridged(rx, ry, 4)
			c := rock.lerp(snow, smooth(-0.05, 0.16, facet)*math.Exp(-d*(4+3*t)))
			c = c.lerp(air, 0.5*smooth(0, height, d)*(1-0.6*t))
			p := &s.pix[y*s.w+x]
			*p = p.lerp(c, cover)
		}
	}
}

// lake mirrors what is above the shore, shaken by small waves.
func (s *scene) lake(shore float64) {
	top := int(shore)
	tall := float64(s.h - top)
	src := append([]rgb(nil), s.pix[:top*s.w]...)
	s.shadeRows(top, s.h, func(x, y float64, _ rgb) rgb {
		d := (y - shore) / tall
		wave := s.noise.fbm(x/tall*0.9, math.Log(d+0.06)*9, 3)
		sx := min(max(int(x+wave*tall*0.05*(0.2+d)), 0), s.w-1)
		sy := top - 1 - int(math.Abs(d*0.98+wave*0.1*d)*math.Min(shore, tall*3.0))
		c := src[max(sy, 0)*s.w+sx].scale(0.62 - 0.16*d)
		return c.scale(1 + 0.3*wave*(0.3+d))
	})
	s.shadeRows(top-1, top+2, func(_, y float64, under rgb) rgb {
		return under.add(hex(0x9fd8c8).scale(0.06 * math.Exp(-math.Abs(y-shore))))
	})
}

// firs stand in both lower corners and frame the view.
func (s *scene) firs(shore float64, dark rgb) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	dark = dark.scale(0.35)
	ground := func(x float64) float64 {
		edge := math.Pow(math.Abs(2*x/w-1), 3)
		return h - (h-shore)*(0.08+0.42*edge) - u*7*s.noise.at(x/w*9, 2)
	}
	for i := range 28 {
		side := s.Float64()
		x := w * 0.27 * math.Pow(side, 1.5)
		if i%2 == 0 {
			x = w - x
		}
		tall := u * (310 - 220*side) * s.between(0.55, 1.1)
		s.fir(vec{x, ground(x) + 4*u}, tall, dark)
	}
	bank := []vec{{0, h}}
	for i := range 61 {
		x := float64(i) / 60 * w
		bank = append(bank, vec{x, ground(x)})
	}
	s.fill(dark, 1, over, append(bank, vec{w, h}))
}

// fir is one tree, from a trunk and drooping tiers of branches.
func (s *scene) fir(foot vec, tall float64, col rgb) {
	tiers := 9 + s.IntN(4)
	outline := []vec{foot.add(vec{0, -tall})}
	var left []vec
	for i := 1; i <= tiers; i++ {
		t := float64(i) / float64(tiers)
		y := foot.y - tall*(1-t*0.95)
		reach := tall * 0.19 * math.Pow(t, 0.85)
		a, b := reach*s.between(0.8, 1.15), reach*s.between(0.8, 1.15)
		outline = append(outline, vec{foot.x + a, y + tall*0.018}, vec{foot.x + a*0.42, y - tall*0.012})
		left = append(left, vec{foot.x - b, y + tall*0.018}, vec{foot.x - b*0.42, y - tall*0.012})
	}
	for i := len(left) - 2; i >= 0; i -= 2 {
		outline = append(outline, left[i+1], left[i])
	}
	s.fill(col, 1, over, outline)
	s.fill(col, 1, over, box(foot.x-tall*0.012, foot.y-tall*0.2, foot.x+tall*0.012, foot.y))
}
