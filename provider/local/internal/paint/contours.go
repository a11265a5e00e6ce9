package paint

import (
	"math"

	"github.com/makegood/makegood/internal/typeset"
)

// contours is a map of a country that does not exist: tinted heights under a
// north-western sun, contour lines with every fifth one bold, lakes with depth
// lines, and the highest tops marked.
func contours(s *scene) {
	land := s.survey()
	s.relief(land)
	s.tops(land)
	s.frame()
	s.grain(s.noise, 0.03)
}

// heights is a field of heights, 0 to 1, with a margin of one pixel.
type heights struct {
	w, h  int
	v     []float32
	level float64 // of the lakes
}

func (f *heights) at(x, y int) float64 { return float64(f.v[(y+1)*(f.w+2)+x+1]) }

// slope is the change of height per pixel.
func (f *heights) slope(x, y int) vec {
	return vec{(f.at(x+1, y) - f.at(x-1, y)) / 2, (f.at(x, y+1) - f.at(x, y-1)) / 2}
}

// survey makes the land: warped noise, so that ranges bend and valleys wind.
func (s *scene) survey() *heights {
	scale := float64(min(s.w, s.h))
	f := &heights{w: s.w, h: s.h, v: make([]float32, (s.w+2)*(s.h+2)), level: s.between(0.3, 0.4)}
	n := s.noise + 71
	freq := s.between(1.5, 2.1)
	for y := -1; y <= s.h && s.live(); y++ {
		for x := -1; x <= s.w; x++ {
			px, py := float64(x)/scale*freq, float64(y)/scale*freq
			wx, wy := n.fbm(px*0.9, py*0.9, 2), (n+3).fbm(px*0.9, py*0.9, 2)
			v := 0.5 + 0.42*n.fbm(px+0.5*wx, py+0.5*wy, 4)
			v += 0.16 * (n.ridged(px*0.8+wx, py*0.8+wy, 2) - 0.6) * smooth(0.4, 0.8, v)
			f.v[(y+1)*(s.w+2)+x+1] = float32(v)
		}
	}
	return f
}

// relief paints tint, shadow and lines.
func (s *scene) relief(land *heights) {
	const lines = 36
	u := s.unit()
	tint := newRamp(s.accents[2].mix(s.paper, 0.25), s.accents[4].mix(s.paper, 0.2), s.accents[3].mix(s.paper, 0.2), s.accents[3].mix(s.paper, 0.7))
	water := newRamp(s.accents[0].mix(s.paper, 0.15), s.accents[1].mix(s.paper, 0.45), s.accents[2].mix(s.paper, 0.6))
	if s.dark {
		tint = newRamp(s.paper, s.accents[0], s.accents[1], s.accents[2])
		water = newRamp(hex(0x04060f), s.paper.scale(0.6))
	}
	line := s.ink.mix(s.accents[0], 0.35)
	scale := float64(min(s.w, s.h))
	s.shade(func(fx, fy float64, _ rgb) rgb {
		x, y := int(fx), int(fy)
		v := land.at(x, y)
		g := land.slope(x, y)
		steep := g.len()
		var c rgb
		strength := 0.85
		if v < land.level {
			c = water.at(1 - (land.level-v)*4.5)
			strength = 0.34
		} else {
			c = tint.at((v - land.level) / (0.82 - land.level))
			light := clamp01(0.5 + (g.x+g.y)*scale*0.16)
			c = c.scale(0.72 + 0.48*light)
		}
		shore := math.Abs(v-land.level) / (steep + 1e-6)
		c = c.lerp(line, 0.9*clamp01(1.4*u+0.5-shore))
		k := (v - land.level) * lines
		idx := math.Round(k)
		dist := math.Abs(k-idx) / (steep*lines + 1e-6)
		width := 0.75 * u
		if int(idx)%5 == 0 {
			width, strength = 1.5*u, math.Min(1, strength*1.35)
		}
		// A plateau has no line, whatever its height.
		strength *= smooth(0.00002, 0.0002, steep*u)
		return c.lerp(line, strength*clamp01(width+0.5-dist)*math.Min(1, 0.55+width))
	})
}

// tops marks the highest points with a cross and their height in metres.
func (s *scene) tops(land *heights) {
	u := s.unit()
	r := int(95 * u)
	if r < 24 {
		return
	}
	face := typeset.New(typeset.Mono, 17*u)
	marked := 0
	for y := r; y < s.h-r/2 && marked < 6; y += r {
		for x := r; x < s.w-r && marked < 6; x += r {
			px, py := x, y
			for j := y - r/2; j < y+r/2; j++ {
				for i := x - r/2; i < x+r/2; i++ {
					if land.at(i, j) > land.at(px, py) {
						px, py = i, j
					}
				}
			}
			inside := px > x-r/2 && px < x+r/2-1 && py > y-r/2 && py < y+r/2-1
			if v := land.at(px, py); inside && v > land.level+0.22 {
				s.top(face, vec{float64(px), float64(py)}, int(v*2900))
				marked++
			}
		}
	}
}

// frame is the neat line that maps have.
func (s *scene) frame() {
	u := s.unit()
	m := 18 * u
	w, h := float64(s.w), float64(s.h)
	s.shade(func(x, y float64, under rgb) rgb {
		d := math.Min(math.Min(x, w-x), math.Min(y, h-y))
		out := clamp01(m - d + 0.5)
		edge := clamp01(1.1*u + 0.5 - math.Abs(d-m))
		return under.lerp(s.paper, out).lerp(s.ink, 0.8*edge)
	})
}
