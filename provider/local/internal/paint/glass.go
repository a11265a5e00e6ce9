package paint

import "math"

// glass is a leaded window: rings of panes around a rose, lit from behind.
func glass(s *scene) {
	w, h, u := float64(s.w), float64(s.h), s.unit()
	rose := vec{w * s.between(0.38, 0.62), h * s.between(0.36, 0.6)}
	panes := s.panes(rose)
	grid := newSites(panes, w, h, 90*u)
	sheet := s.noise + 61
	lead := hex(0x0d0c12)
	reach := math.Hypot(w, h) * 0.62
	s.shade(func(x, y float64, _ rgb) rgb {
		p := vec{x, y}
		pane, edge := grid.nearest(p)
		d := p.sub(rose).len() / reach
		// Old glass: streaks, bubbles, thicker towards the lead.
		streak := sheet.fbm(x/(150*u)+pane.turn*9, y/(38*u)+pane.turn*5, 3)
		glow := (1.45 - 1.05*smooth(0, 0.95, d)) * (1 + 0.3*streak + 0.13*pane.tone)
		rim := smooth(0, 20*u, edge)
		c := pane.col.scale(glow * (0.55 + 0.45*rim))
		c = c.lerp(s.sun, 0.4*math.Exp(-d*5)*rim)
		half := 4.6 * u * pane.lead
		line := clamp01(half + 0.5 - edge)
		metal := lead.lerp(s.sky, 0.07*math.Exp(-math.Pow((edge-half*0.35)/(half*0.4), 2)))
		return c.lerp(metal, line)
	})
	s.vignette(0.35)
	s.grain(s.noise, 0.03)
}

type pane struct {
	at               vec
	col              rgb
	turn, tone, lead float64
}

// panes stand in rings, twice as many on each second ring, with a little of the
// hand's unevenness.
func (s *scene) panes(rose vec) []pane {
	u := s.unit()
	w, h := float64(s.w), float64(s.h)
	fold := 6 + 2*s.IntN(4)
	petals := float64(fold)
	order := s.Perm(5)
	jitter := s.between(0.04, 0.3)
	out := []pane{{at: rose, col: s.accents[5].mix(s.sun, 0.35), lead: 1}}
	for ring, r := 1, 62*u; r < math.Hypot(w, h); ring++ {
		n := int(petals)
		start := float64(ring%2) * math.Pi / petals
		for i := range n {
			a := start + 2*math.Pi*float64(i)/petals
			at := rose.to(a+s.NormFloat64()*jitter/petals, r+s.NormFloat64()*jitter*26*u)
			if !at.within(w, h, 160*u) {
				continue
			}
			col := s.accents[order[(ring+ring/3*2)%5]]
			if i%2 == 1 && ring%2 == 0 {
				col = s.accents[order[(ring+3)%5]]
			}
			if s.Float64() < 0.07 {
				col = s.accents[5]
			}
			out = append(out, pane{at, col.vary(0.02+s.NormFloat64()*0.04, 0.22), s.Float64(), s.NormFloat64(), 0.85})
		}
		r += (62 + 9*float64(ring%3)) * u * (1 + 0.1*float64(ring))
		if r*2*math.Pi/petals > 150*u {
			petals *= 2
		}
	}
	return out
}

// sites finds the nearest panes through a grid.
type sites struct {
	panes []pane
	cell  float64
	cols  int
	rows  int
	cells [][]int32
}

func newSites(panes []pane, w, h, cell float64) *sites {
	g := &sites{panes: panes, cell: cell, cols: int(w/cell) + 5, rows: int(h/cell) + 5}
	g.cells = make([][]int32, g.cols*g.rows)
	for i, p := range panes {
		x, y := int(p.at.x/cell+2), int(p.at.y/cell+2)
		if x >= 0 && y >= 0 && x < g.cols && y < g.rows {
			g.cells[y*g.cols+x] = append(g.cells[y*g.cols+x], int32(i))
		}
	}
	return g
}

// nearest returns the pane that p lies in and p's distance to its border.
func (g *sites) nearest(p vec) (*pane, float64) {
	x, y := int(p.x/g.cell+2), int(p.y/g.cell+2)
	best, bestDist := -1, math.Inf(1)
	var near [64]int32
	var dist [64]float64 // squared
	n := 0
	for j := max(y-2, 0); j <= min(y+2, g.rows-1); j++ {
		for i := max(x-2, 0); i <= min(x+2, g.cols-1); i++ {
			for _, k := range g.cells[j*g.cols+i] {
				d := p.sub(g.panes[k].at)
				dd := d.dot(d)
				if dd < bestDist {
					best, bestDist = int(k), dd
				}
				if n < len(near) {
					near[n], dist[n], n = k, dd, n+1
				}
			}
		}
	}
	if best < 0 {
		return &g.panes[0], math.Inf(1)
	}
	own := &g.panes[best]
	edge := math.Inf(1)
	for i, k := range near[:n] {
		// The border with pane k is where both are equally far.
		if d := g.panes[k].at.sub(own.at); int(k) != best {
			edge = min(edge, (dist[i]-bestDist)/(2*math.Sqrt(d.dot(d))+1e-9))
		}
	}
	return own, edge
}
