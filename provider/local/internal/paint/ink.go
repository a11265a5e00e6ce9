package paint

import "math"

// ink follows an invisible current with strokes that never cross: each is drawn
// only as far as there is room beside those already there.
func ink(s *scene) {
	u := s.unit()
	s.paperGround()
	f := s.current()
	room := newCrowd(s.w, s.h, 3*u)
	for _, pass := range []struct {
		width, gap float64
		tries      int
		minLength  float64
	}{{26, 7, 70, 150}, {15, 5, 260, 110}, {8, 4, 800, 70}, {3.6, 3.2, 2600, 40}, {1.7, 3, 3200, 26}} {
		for range pass.tries {
			if !s.live() {
				return
			}
			start := vec{s.between(-0.03, 1.03) * float64(s.w), s.between(-0.03, 1.03) * float64(s.h)}
			width := pass.width * u * s.between(0.75, 1.2)
			line := room.trace(start, f, width/2+pass.gap*u, 900*u, 3*u)
			if float64(len(line))*3*u < pass.minLength*u {
				continue
			}
			room.occupy(line, width/2)
			s.strand(line, width)
		}
	}
	s.vignette(0.12)
	s.grain(s.noise, 0.03)
}

// paperGround is the sheet: its colour, slow stains and fibres.
func (s *scene) paperGround() {
	scale := float64(min(s.w, s.h))
	n := s.noise + 303
	s.shade(func(x, y float64, _ rgb) rgb {
		stain := n.fbm(x/scale*2.2, y/scale*2.2, 3)
		fibre := n.at(x*0.45, y*0.9)
		return s.paper.scale(1 + 0.028*stain + 0.012*fibre)
	})
}

// current is a direction for each place: slow noise, and one or two eddies.
func (s *scene) current() func(vec) float64 {
	scale := float64(min(s.w, s.h))
	n := s.noise + 42
	turn := s.between(0, 2*math.Pi)
	bend := s.between(1.3, 2.4)
	freq := s.between(0.75, 1.25)
	type eddy struct {
		at        vec
		r, strong float64
	}
	var eddies []eddy
	for range 1 + s.IntN(3) {
		strong := s.between(0.7, 1.6)
		if s.IntN(2) == 0 {
			strong = -strong
		}
		eddies = append(eddies, eddy{vec{s.Float64() * float64(s.w), s.Float64() * float64(s.h)}, scale * s.between(0.18, 0.36), strong})
	}
	return func(p vec) float64 {
		a := turn + bend*n.fbm(p.x/scale*freq, p.y/scale*freq, 2)
		for _, e := range eddies {
			d := p.sub(e.at).len() / e.r
			a += e.strong * math.Exp(-d*d) * math.Pi / 2
		}
		return a
	}
}

// strand paints one stroke: solid, with a brighter edge and rounded ends.
func (s *scene) strand(line []vec, width float64) {
	mid := line[len(line)/2]
	scale := float64(min(s.w, s.h))
	region := (s.noise+9).fbm(mid.x/scale*1.1, mid.y/scale*1.1, 2)*0.5 + 0.5
	col := s.all.at(region+s.NormFloat64()*0.12).vary(s.NormFloat64()*0.025, 0)
	switch k := s.Float64(); {
	case k < 0.07:
		col = s.accents[5]
	case k < 0.2:
		col = s.ink.mix(col, 0.2)
	}
	if d := col.lab()[0] - s.paper.lab()[0]; math.Abs(d) < 0.1 {
		col = col.mix(s.ink, 0.25)
	}
	body := ribbon(line, brush(width, float64(len(line))))
	s.fill(col, 0.96, over, body)
	if width > 3 {
		side := make([]vec, len(line))
		for i, p := range line {
			q := line[min(i+1, len(line)-1)].sub(line[max(i-1, 0)]).unitOr(vec{1, 0})
			side[i] = p.add(q.normal().mul(-width * 0.22))
		}
		s.fill(col.mix(s.paper, 0.4), 0.28, over, ribbon(side, brush(width*0.2, float64(len(line)))))
	}
}

// brush swells at once, holds, and runs out towards the end.
func brush(width, n float64) func(float64) float64 {
	head := math.Min(0.5, width/3/n+0.02)
	return func(t float64) float64 {
		in := math.Sqrt(clamp01(1 - math.Pow(1-math.Min(t/head, 1), 2)))
		out := math.Pow(clamp01((1-t)/0.45), 0.6)
		return width * in * math.Min(out, 1)
	}
}

// crowd knows which places are taken.
type crowd struct {
	w, h, cols, rows int
	cell             float64
	cells            [][]taken
	reach            float64 // the largest radius taken so far
}

type taken struct {
	at vec
	r  float64
}

func newCrowd(w, h int, cell float64) *crowd {
	cell = math.Max(cell*4, 4)
	c := &crowd{w: w, h: h, cell: cell}
	c.cols, c.rows = int(float64(w)*1.2/cell)+3, int(float64(h)*1.2/cell)+3
	c.cells = make([][]taken, c.cols*c.rows)
	return c
}

// place is the cell of p, with a margin of a tenth around the picture.
func (c *crowd) place(p vec) (int, int) {
	return int((p.x+0.1*float64(c.w))/c.cell) + 1, int((p.y+0.1*float64(c.h))/c.cell) + 1
}

func (c *crowd) free(p vec, r float64) bool {
	x, y := c.place(p)
	k := int((r+c.reach)/c.cell) + 1
	for j := max(y-k, 0); j <= min(y+k, c.rows-1); j++ {
		for i := max(x-k, 0); i <= min(x+k, c.cols-1); i++ {
			for _, t := range c.cells[j*c.cols+i] {
				if d, m := p.sub(t.at), r+t.r; d.x*d.x+d.y*d.y < m*m {
					return false
				}
			}
		}
	}
	return true
}

// trace follows the current both ways from start while there is room for r.
func (c *crowd) trace(start vec, angle func(vec) float64, r, length, step float64) []vec {
	var halves [2][]vec
	for side, sign := range []float64{1, -1} {
		p := start
		for range int(length / step / 2) {
			if !p.within(float64(c.w), float64(c.h), 0.05*float64(c.w)) || !c.free(p, r) {
				break
			}
			halves[side] = append(halves[side], p)
			p = p.add(heading(angle(p)).mul(sign * step))
		}
	}
	line := make([]vec, 0, len(halves[0])+len(halves[1]))
	for i := len(halves[1]) - 1; i > 0; i-- {
		line = append(line, halves[1][i])
	}
	return append(line, halves[0]...)
}

func (c *crowd) occupy(line []vec, r float64) {
	c.reach = math.Max(c.reach, r)
	for _, p := range line {
		x, y := c.place(p)
		if x >= 0 && y >= 0 && x < c.cols && y < c.rows {
			c.cells[y*c.cols+x] = append(c.cells[y*c.cols+x], taken{p, r})
		}
	}
}
