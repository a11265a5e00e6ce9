package paint

import "math"

// sea is open water under a low sun: swell that mirrors the sky, a road of
// glitter, headlands in the haze, and now and then a sail.
func sea(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	horizon := h * s.between(0.42, 0.55)
	sun := vec{w * s.between(0.25, 0.75), horizon - h*s.between(0.09, 0.2)}
	radius := u * s.between(48, 70)
	s.skyWithSun(sun, horizon, radius)
	for i := range 2 + s.IntN(2) {
		s.headland(horizon, float64(i)/2, s.Float64() < 0.5)
	}
	s.water(horizon, sun, radius)
	for range s.IntN(3) + 1 {
		side := w * s.between(0.08, 0.92)
		s.sail(vec{side, horizon + h*math.Pow(s.Float64(), 2)*0.16 + 3*u}, horizon)
	}
	s.birds(vec{w * s.between(0.15, 0.85), horizon * s.between(0.3, 0.6)}, 3+s.IntN(4))
	s.vignette(0.22)
	s.grain(s.noise, 0.03)
}

// headland is a strip of coast that ends somewhere in the picture.
func (s *scene) headland(horizon, t float64, left bool) {
	w, u := float64(s.w), s.unit()
	n := s.noise + noise(500+90*t)
	reach := w * s.between(0.25, 0.62) * (1.1 - 0.4*t)
	height := u * s.between(28, 85) * (0.6 + 0.7*t)
	col := s.far.mix(s.sky, 0.55-0.5*t).mix(s.near, 0.3*t)
	line := []vec{}
	for i := range 161 {
		f := float64(i) / 160
		rise := math.Pow(1-f, 0.7) * (0.62 + 0.45*n.fbm(f*5, t*9, 4))
		x := f * reach
		if !left {
			x = w - x
		}
		line = append(line, vec{x, horizon - height*rise})
	}
	edge := 0.0
	if !left {
		edge = w
	}
	line = append(line, vec{edge, horizon + 1})
	s.fillWith(func(_, y float64) (rgb, float64) {
		return col.lerp(s.sky, 0.55*smooth(horizon-height, horizon, y)), 1
	}, over, line)
}

// water paints everything below the horizon as seen from a low cliff: what is
// twice as far down is half as far away.
func (s *scene) water(horizon float64, sun vec, radius float64) {
	h := float64(s.h)
	depth := h - horizon
	deep := s.near.mix(s.accents[0], 0.45)
	bright := s.sun.scale(1.15)
	top := int(horizon)
	s.shadeRows(top, s.h, func(x, y float64, under rgb) rgb {
		d := (y - horizon) / depth
		if d < 0 {
			return under
		}
		z := 1 / (d + 0.035)
		px, pz := (x-float64(s.w)/2)/depth*z*1.1, z*2.6
		swell := s.noise.fbm(px*0.9, pz*1.7, 3)
		chop := (s.noise + 5).fbm(px*3.1+swell*0.7, pz*4.6, 2)
		tilt := (swell + 0.6*chop) * smooth(0, 0.05, d)
		mirrored := s.air.at(1 - 0.95*d - 0.33*tilt*(0.4+d))
		fresnel := 0.78*math.Pow(1-d, 1.2) + 0.3*tilt
		c := deep.lerp(mirrored, clamp01(fresnel))
		c = c.scale(1 + 0.24*tilt)
		spread := radius*(0.75+3.6*d) + 1
		road := math.Exp(-math.Pow((x-sun.x)/spread, 2) * 0.9)
		glitter := smooth(0.22-0.32*road, 0.62, chop+0.5*swell+0.35*road-0.1)
		c = c.lerp(bright, clamp01(road*(0.16+0.9*glitter)*(1-0.3*d)))
		return under.lerp(c, clamp01(y-horizon+0.5))
	})
	// A line of light where water and sky meet.
	s.shadeRows(top-3, top+4, func(x, y float64, under rgb) rgb {
		near := math.Exp(-math.Abs(x-sun.x) / (radius * 4))
		return under.lerp(s.sun, (0.15+0.5*near)*math.Exp(-math.Abs(y-horizon)*0.9))
	})
}

// sail is a small boat; the farther down, the closer and larger.
func (s *scene) sail(at vec, horizon float64) {
	u := s.unit()
	k := u*14 + (at.y-horizon)*0.55
	hull := s.near.mix(s.far, 0.35*math.Exp(-(at.y-horizon)/(60*u)))
	cloth := s.paper.mix(s.sun, 0.4)
	if s.dark {
		cloth = s.sun.mix(s.far, 0.3)
	}
	lean := s.between(-0.12, 0.12) * k
	mast := at.add(vec{lean, -1.75 * k})
	main := append(quad(mast, at.add(vec{0.62*k + lean, -0.8 * k}), at.add(vec{0.78 * k, -0.17 * k}), 10), at.add(vec{0.05 * k, -0.2 * k}))
	jib := append(quad(mast.add(vec{-0.03 * k, 0.1 * k}), at.add(vec{-0.42*k + lean, -0.7 * k}), at.add(vec{-0.72 * k, -0.2 * k}), 10), at.add(vec{-0.04 * k, -0.22 * k}))
	s.fill(cloth, 1, over, main)
	s.fill(cloth.lerp(hull, 0.25), 1, over, jib)
	s.fill(hull, 1, over, ribbon([]vec{mast.add(vec{0, -0.06 * k}), at.add(vec{0, -0.15 * k})}, even(math.Max(0.045*k, 0.9))))
	body := append(quad(at.add(vec{-0.8 * k, -0.15 * k}), at.add(vec{-0.5 * k, 0.14 * k}), at.add(vec{0, 0.12 * k}), 8), quad(at.add(vec{0.3 * k, 0.13 * k}), at.add(vec{0.62 * k, 0.1 * k}), at.add(vec{0.8 * k, -0.17 * k}), 8)...)
	s.fill(hull, 1, over, body)
	for i := range 9 {
		y := at.y + k*(0.16+0.16*float64(i))
		width := k * (0.75 - 0.07*float64(i)) * s.between(0.5, 1.1)
		x := at.x + s.between(-0.14, 0.2)*k
		s.fill(cloth.lerp(hull, 0.35), 0.34-0.03*float64(i), over, ribbon(quad(vec{x - width, y}, vec{x, y + 0.05*k}, vec{x + width, y}, 6),
			func(t float64) float64 { return 0.075 * k * math.Sin(math.Pi*t) }))
	}
}

// birds are a loose flock around a point.
func (s *scene) birds(at vec, n int) {
	u := s.unit()
	for range n {
		p := at.add(vec{s.NormFloat64() * 60 * u, s.NormFloat64() * 28 * u})
		span, tilt := s.between(9, 19)*u, s.between(-0.3, 0.3)
		for _, side := range []float64{-1, 1} {
			tip := p.add(vec{side * span, -span * (0.25 + tilt*side)})
			wing := quad(p, p.add(vec{side * span * 0.45, -span * 0.6}), tip, 8)
			s.fill(s.near, 0.75, over, ribbon(wing, taper(2.6*u, 0.6*u)))
		}
	}
}
