package paint

import "math"

// city is a skyline between day and night: towers in layers of haze, a large
// moon, lit windows, and a river that draws the lights out long.
func city(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	bank := h * s.between(0.76, 0.83)
	moon := vec{w * s.between(0.2, 0.8), bank * s.between(0.3, 0.52)}
	s.duskSky(bank)
	s.stars(bank*0.4, smooth(0.3, 0.02, s.air.at(0.1).luminance()))
	s.glow(moon, u*430, s.halo, 0.4)
	s.moon(moon, u*s.between(75, 110))
	for i := range 4 {
		s.block(float64(i)/3, bank)
	}
	s.river(bank)
	s.vignette(0.3)
	s.grain(s.noise, 0.035)
}

func (s *scene) duskSky(bank float64) {
	scale := float64(min(s.w, s.h))
	cloud := s.noise + 11
	s.shade(func(x, y float64, _ rgb) rgb {
		t := math.Pow(y/bank, 1.25)
		c := s.air.at(t).scale(0.42 + 0.5*t)
		band := cloud.fbm(x/scale*1.3, y/scale*7, 4)
		return c.lerp(s.sky.scale(0.9), 0.3*smooth(0.05, 0.7, band)*smooth(0.15, 0.7, t))
	})
}

// moon has seas, faint as through evening air.
func (s *scene) moon(at vec, r float64) {
	face := s.sun.lerp(s.sky, 0.14)
	seas := face.lerp(s.air.at(0.7), 0.3)
	n := s.noise + 8
	var rim []vec
	for i := range 120 {
		rim = append(rim, at.to(float64(i)/120*2*math.Pi, r))
	}
	s.fillWith(func(x, y float64) (rgb, float64) {
		p := vec{x, y}.sub(at).mul(1 / r)
		v := n.fbm(p.x*1.5, p.y*1.5, 3)
		limb := 1 - 0.12*p.dot(p)
		return face.lerp(seas, 0.8*smooth(-0.05, 0.4, v)).scale(limb), 0.97
	}, over, rim)
}

// block is one row of houses; t runs from 0 (far) to 1 (close).
func (s *scene) block(t, bank float64) {
	w, u := float64(s.w), s.unit()
	wall := s.near.mix(s.air.at(0.82), 0.62*math.Pow(1-t, 1.1)+0.03)
	haze := s.air.at(0.9)
	tall := u * (330 - 90*t)
	for x := -40 * u * s.Float64(); x < w; {
		width := u * s.between(26, 62) * (0.75 + 0.75*t)
		rise := tall * (0.28 + 0.9*math.Pow(s.Float64(), 2.1)) * (0.72 + 0.5*s.noise.at(x/(260*u), 3+t*8))
		top := bank - math.Max(rise, 30*u)
		s.tower(x, top, width, bank, wall, haze, t)
		x += width
		if s.Float64() < 0.16 {
			x += u * s.between(4, 26)
		}
	}
}

// tower is one house with its roof and its windows.
func (s *scene) tower(x, top, width, bank float64, wall, haze rgb, t float64) {
	u := s.unit()
	shape := box(x, top, x+width, bank+1)
	mid := x + width/2
	switch k := s.Float64(); {
	case k < 0.12: // spire
		shape = []vec{{x, bank + 1}, {x, top}, {mid - 2*u, top - width*0.5}, {mid, top - width*1.25}, {mid + 2*u, top - width*0.5}, {x + width, top}, {x + width, bank + 1}}
	case k < 0.3: // set back
		in, step := width*0.18, width*0.35
		shape = []vec{{x, bank + 1}, {x, top + step}, {x + in, top + step}, {x + in, top}, {x + width - in, top}, {x + width - in, top + step}, {x + width, top + step}, {x + width, bank + 1}}
	case k < 0.4: // slanted roof
		shape[0].y -= width * 0.35
	case k < 0.5 && t > 0.3: // mast with a lamp
		mast := width * s.between(0.5, 1)
		s.fill(wall, 1, over, box(mid-u, top-mast, mid+u, top))
		s.glow(vec{mid, top - mast}, 14*u, hex(0xff5040), 0.9)
	}
	s.fillWith(func(_, y float64) (rgb, float64) {
		return wall.lerp(haze, 0.45*(1-0.75*t)*smooth(top, bank, y)), 1
	}, over, shape)
	if t > 0.1 {
		s.windows(x, top+width*0.42, width, bank, t)
	}
}

// windows light up floor by floor; people of one floor tend to work late together.
func (s *scene) windows(x, top, width, bank, t float64) {
	u := s.unit()
	pw, ph := u*(3.1+2.7*t), u*(4+3.4*t)
	gapX, gapY := pw*1.9, ph*1.75
	cols := int((width - pw) / gapX)
	if cols < 1 || pw < 0.6 {
		return
	}
	left := x + (width-float64(cols-1)*gapX-pw)/2
	habit := s.between(0.08, 0.5)
	warm := hex(0xffc873).mix(s.accents[3], 0.25)
	cool := hex(0xd8ecff)
	for y := top; y < bank-gapY; y += gapY {
		late := habit * s.between(0.4, 1.6)
		for i := range cols {
			if s.Float64() > late {
				continue
			}
			col := warm.vary(s.between(-0.1, 0.08), 0)
			if s.Float64() < 0.1 {
				col = cool
			}
			px := left + float64(i)*gapX
			s.fill(col, (0.35+0.6*t)*s.between(0.6, 1), over, box(px, y, px+pw, y+ph))
			if t > 0.6 && s.Float64() < 0.2 {
				s.glow(vec{px + pw/2, y + ph/2}, 5*ph, col, 0.1)
			}
		}
	}
}

// river mirrors the skyline, drawn out downwards by the ripples.
func (s *scene) river(bank float64) {
	top := int(bank)
	tall := float64(s.h - top)
	src := append([]rgb(nil), s.pix[:top*s.w]...)
	tint := s.near.mix(s.air.at(0.3), 0.4)
	s.shadeRows(top, s.h, func(x, y float64, _ rgb) rgb {
		d := (y - bank) / tall
		wave := s.noise.fbm(x/tall*0.8, math.Log(d+0.07)*8, 3)
		sx := min(max(int(x+wave*tall*0.11*(0.15+d)), 0), s.w-1)
		var sum rgb
		const taps = 9
		for i := range taps {
			up := d*1.9 + (float64(i)/taps-0.3)*0.55*(0.15+d) + 0.14*wave*d
			sy := top - 1 - int(math.Abs(up)*tall)
			sum = sum.add(src[min(max(sy, 0), top-1)*s.w+sx])
		}
		c := sum.scale(1.0 / taps)
		return c.lerp(tint, 0.2+0.3*d).scale(1 + 0.28*wave*(0.35+d))
	})
	s.shadeRows(top-2, top+3, func(_, y float64, under rgb) rgb {
		return under.lerp(s.near.scale(0.6), 0.75*math.Exp(-math.Abs(y-bank)*0.7))
	})
}
