package paint

import "math"

// dunes is a desert at the edge of the day: a low sun, haze that swallows the
// far ridges, and crests with a lit and a shaded side.
func dunes(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	horizon := h * s.between(0.46, 0.56)
	sun := vec{w * s.between(0.2, 0.8), horizon - h*s.between(0.08, 0.24)}
	s.skyWithSun(sun, horizon, u*s.between(45, 75))

	layers := 6 + s.IntN(2)
	for i := range layers {
		s.dune(float64(i)/float64(layers-1), 1/float64(layers-1), horizon, sun)
	}
	s.vignette(0.25)
	s.grain(s.noise, 0.035)
}

// skyWithSun paints the sky down to the horizon and beyond: gradient, long thin
// clouds that catch the light, the sun and its halo.
func (s *scene) skyWithSun(sun vec, horizon, radius float64) {
	w, h := float64(s.w), float64(s.h)
	scale := math.Min(w, h)
	cloud := s.noise + 77
	s.shade(func(x, y float64, _ rgb) rgb {
		t := y / horizon
		c := s.air.at(t)
		d := math.Hypot(x-sun.x, y-sun.y) / scale
		near := math.Exp(-d * 3.2)
		c = c.lerp(s.halo, 0.55*near)
		band := cloud.fbm(x/scale*1.7, y/scale*11+0.6*math.Sin(x/scale*2), 4)
		veil := smooth(0.12, 0.75, band) * smooth(0, 0.35, t) * smooth(1.25, 0.7, t)
		lit := s.sky.lerp(s.halo, 0.3+0.6*near)
		return c.lerp(lit, 0.5*veil)
	})
	s.glow(sun, radius*6, s.halo, 0.38)
	s.disc(sun, radius, s.sun.scale(1.08), 1, over)
}

// dune paints one row of dunes; t runs from 0 (farthest) to 1 (closest).
//
// A row is a wave with sharp crests: windward sides rise slowly into the light,
// slip faces fall away in shadow, and the edge between them wanders down from
// each crest. Only that edge is sharp; troughs are soft. The next row, at t +
// step, hides what lies below its own foot.
func (s *scene) dune(t, step, horizon float64, sun vec) {
	scale := float64(min(s.w, s.h))
	n := s.noise + noise(1000*t) + 1
	foot := func(t float64) float64 { return horizon + (float64(s.h)-horizon)*math.Pow(t, 1.3)*0.9 }
	swell := func(t float64) float64 { return scale * (0.03 + 0.12*t) }
	base, amp := foot(t), swell(t)
	bottom := s.h
	if t+step < 1.01 {
		bottom = min(s.h, int(foot(t+step)+0.5*swell(t+step))+2)
	}
	tilt := s.between(0.5, 1.3) * (1 + t)
	freq := (3.1 - 1.9*t) * s.between(0.85, 1.15) / scale
	shift := s.between(0, 50)
	crest := s.between(0.56, 0.72)
	mirror := 1.0 // the sun stands on the windward side
	if sun.x > float64(s.w)/2 {
		mirror = -1
	}
	haze := math.Pow(1-t, 1.3)
	body := s.near.mix(s.far, math.Pow(1-t, 0.75))
	lit := body.mix(s.halo, 0.5).mix(s.sky, 0.45*haze)
	shade := body.mix(s.near, 0.25*t).mix(s.sky, 0.22*haze)
	mist := s.sky.mix(s.far, 0.3)

	for x := 0; x < s.w && s.live(); x++ {
		fx := mirror * float64(x) * freq
		wobble := 0.34 * n.at(fx*0.8+shift, 3.3)
		phase, cell := fract(fx + shift + wobble)
		top := base - amp*((0.45+0.75*n.unit(cell, 7))*slope(phase, crest)+0.4*n.at(fx*0.37+shift, 7.7))
		for y := max(int(top)-1, 0); y < bottom; y++ {
			d := (float64(y) + 0.5 - top) / scale
			cover := clamp01(d*scale + 0.5)
			wind := 0.1*n.at(d*9+shift, fx*0.5)*smooth(0, 0.06, d) - tilt*d
			p, _ := fract(fx + shift + wobble + wind)
			bright := facing(p, crest)
			ripple := 0.05 * math.Sin(d*240*(1.25-0.75*t)+7*n.at(fx*2.2, d*6)) * t * smooth(0.01, 0.08, d)
			c := shade.lerp(lit, clamp01(bright*math.Exp(-d*2.4)+ripple))
			c = c.lerp(mist, (0.05+0.62*haze)*smooth(0, 0.22, d))
			c = c.lerp(s.halo, (0.15+0.4*haze)*bright*math.Exp(-d*110))
			q := &s.pix[y*s.w+x]
			*q = q.lerp(c, cover)
		}
	}
}

// fract splits a phase into its fraction and the wave it belongs to.
func fract(p float64) (float64, int) {
	f := math.Floor(p)
	return p - f, int(f)
}

// slope is the height of a dune along one wave, 0 to 1, highest at crest.
func slope(p, crest float64) float64 {
	if p < crest {
		return math.Pow(p/crest, 1.35)
	}
	return math.Pow((1-p)/(1-crest), 1.2)
}

// facing is how much light a place on the wave gets: most just before the
// crest, least just behind it.
func facing(p, crest float64) float64 {
	if p < crest {
		return 0.42 + 0.55*math.Pow(p/crest, 1.5)
	}
	back := (p - crest) / (1 - crest)
	// A few hundredths of a wave across the edge keep it from looking cut.
	return 0.97 + (0.05+0.37*back*back-0.97)*smooth(0, 0.025, p-crest)
}
