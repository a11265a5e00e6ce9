package paint

import "math"

// watercolor lets pigment run: every wash is many thin glazes whose edges were
// each deformed a little differently, so they pool, feather and overlap.
func watercolor(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	s.paperGround()
	blobs := 9 + s.IntN(5)
	centre := vec{w * s.between(0.4, 0.6), h * s.between(0.4, 0.6)}
	turn := s.between(0, 2*math.Pi)
	for i := range blobs {
		t := float64(i) / float64(blobs)
		at := centre.to(turn+float64(i)*2.39996, math.Sqrt(t)*0.47*math.Hypot(w, h)*0.62)
		at = vec{centre.x + (at.x-centre.x)*w/math.Max(w, h), centre.y + (at.y-centre.y)*h/math.Max(w, h)}
		r := u * s.between(100, 230) * (1.15 - 0.5*t)
		col := s.accents[i%5]
		if i == blobs/2 {
			col = s.accents[5]
		}
		s.wash(at, r, col)
	}
	s.rings(5 + s.IntN(4))
	s.splatter(70)
	s.tooth()
	s.vignette(0.08)
}

// wash is one pool of pigment.
func (s *scene) wash(at vec, r float64, col rgb) {
	u := s.unit()
	how := glaze
	if s.dark {
		how = light
		col = col.scale(0.5)
	} else {
		col = col.lerp(col.scale(0.93/float64(max(col[0], col[1], col[2]))), 0.72)
	}
	var rough []vec
	spin := s.between(0, 6.3)
	for i := range 18 {
		rough = append(rough, at.to(spin+float64(i)/18*2*math.Pi, r*s.between(0.9, 1.08)))
	}
	rough = s.deform(s.deform(rough, 0.2), 0.2)
	n := s.noise + noise(s.IntN(9999))
	pool := s.field(at, 1.6*r, func(x, y float64) float64 { return n.at(x/(85*u), y/(85*u)) })
	const layers = 20
	for range layers {
		if !s.live() {
			return
		}
		edge := s.deform(s.deform(s.deform(rough, 0.42), 0.3), 0.22)
		s.fillWith(func(x, y float64) (rgb, float64) {
			return col, 0.052 * (1 + 0.7*pool(x, y))
		}, how, edge)
	}
	// Pigment gathers where the pool dries last.
	s.fill(col.mix(s.ink, 0.1), 0.16, how, ribbon(append(rough, rough[0]), func(t float64) float64 {
		return 4 * u * (0.3 + math.Abs(s.noise.at(t*14, r)))
	}))
}

// field computes f once for every fourth pixel around at and reads it from there.
func (s *scene) field(at vec, r float64, f func(x, y float64) float64) func(x, y float64) float64 {
	const step = 4
	n := int(2*r/step) + 2
	v := make([]float64, n*n)
	ox, oy := at.x-r, at.y-r
	for i := range v {
		v[i] = f(ox+float64(i%n)*step, oy+float64(i/n)*step)
	}
	return func(x, y float64) float64 {
		fx, fy := (x-ox)/step, (y-oy)/step
		i, j := min(max(int(fx), 0), n-2), min(max(int(fy), 0), n-2)
		fx, fy = clamp01(fx-float64(i)), clamp01(fy-float64(j))
		a, b := v[j*n+i], v[(j+1)*n+i]
		a += (v[j*n+i+1] - a) * fx
		b += (v[(j+1)*n+i+1] - b) * fx
		return a + (b-a)*fy
	}
}

// deform pushes the middle of every edge outwards by a random share of its length.
func (s *scene) deform(shape []vec, amount float64) []vec {
	out := make([]vec, 0, 2*len(shape))
	for i, p := range shape {
		q := shape[(i+1)%len(shape)]
		d := q.sub(p)
		mid := p.lerp(q, 0.5+s.NormFloat64()*0.1).add(d.normal().mul(-s.NormFloat64() * amount)).add(d.normal().mul(-0.04))
		out = append(out, p, mid)
	}
	return out
}

// rings are the fine circles of a compass, drawn before the paint.
func (s *scene) rings(n int) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	for range n {
		at := vec{s.between(0.15, 0.85) * w, s.between(0.15, 0.85) * h}
		r := u * s.between(40, 190)
		var line []vec
		from := s.between(0, 6.3)
		sweep := s.between(2.6, 6.3)
		for i := range 91 {
			line = append(line, at.to(from+sweep*float64(i)/90, r))
		}
		s.fill(s.ink, 0.5, over, ribbon(line, func(t float64) float64 {
			return math.Max(1.5*u, 0.8) * (0.7 + 0.5*math.Sin(math.Pi*t))
		}))
		s.disc(line[len(line)-1], 4.5*u, s.accents[5], 0.9, over)
	}
}

// tooth is the grain of rough paper, where pigment settles.
func (s *scene) tooth() {
	u := s.unit()
	n := s.noise + 17
	s.shade(func(x, y float64, under rgb) rgb {
		rough := n.fbm(x/(6*u+1), y/(6*u+1), 2)
		depth := 1 - under.luminance()
		return under.scale(1 + 0.09*rough*(0.3+depth))
	})
}
