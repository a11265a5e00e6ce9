package paint

import (
	"image"
	"math"
)

// vec is a point or a direction, in pixels.
type vec struct{ x, y float64 }

func (a vec) add(b vec) vec               { return vec{a.x + b.x, a.y + b.y} }
func (a vec) sub(b vec) vec               { return vec{a.x - b.x, a.y - b.y} }
func (a vec) mul(k float64) vec           { return vec{a.x * k, a.y * k} }
func (a vec) dot(b vec) float64           { return a.x*b.x + a.y*b.y }
func (a vec) len() float64                { return math.Hypot(a.x, a.y) }
func (a vec) normal() vec                 { return vec{-a.y, a.x} }
func (a vec) lerp(b vec, t float64) vec   { return a.add(b.sub(a).mul(t)) }
func (a vec) to(angle, dist float64) vec  { return a.add(heading(angle).mul(dist)) }
func heading(angle float64) vec           { s, c := math.Sincos(angle); return vec{c, s} }
func (a vec) within(w, h, m float64) bool { return a.x > -m && a.y > -m && a.x < w+m && a.y < h+m }

// unitOr is a scaled to length 1, or or if a has none.
func (a vec) unitOr(or vec) vec {
	if l := a.len(); l > 1e-9 {
		return a.mul(1 / l)
	}
	return or
}

// bounds is the smallest rectangle of whole pixels around outlines.
func bounds(outlines [][]vec) image.Rectangle {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, o := range outlines {
		for _, p := range o {
			x0, y0 = min(x0, p.x), min(y0, p.y)
			x1, y1 = max(x1, p.x), max(y1, p.y)
		}
	}
	if x0 > x1 {
		return image.Rectangle{}
	}
	return image.Rect(int(math.Floor(x0)), int(math.Floor(y0)), int(math.Ceil(x1)), int(math.Ceil(y1)))
}

// ribbon is the outline of a line whose width (full, in pixels) follows width(t)
// from its start (t = 0) to its end (t = 1).
func ribbon(line []vec, width func(t float64) float64) []vec {
	n := len(line)
	if n < 2 {
		return nil
	}
	out := make([]vec, 2*n)
	dir := vec{1, 0}
	for i, p := range line {
		dir = line[min(i+1, n-1)].sub(line[max(i-1, 0)]).unitOr(dir)
		side := dir.normal().mul(width(float64(i)/float64(n-1)) / 2)
		out[i], out[2*n-1-i] = p.add(side), p.sub(side)
	}
	return out
}

// even is a ribbon of one width.
func even(w float64) func(float64) float64 { return func(float64) float64 { return w } }

// taper is a ribbon that ends in a point.
func taper(from, to float64) func(float64) float64 {
	return func(t float64) float64 { return from + (to-from)*t }
}

// quad samples a quadratic curve in n+1 points.
func quad(a, b, c vec, n int) []vec {
	out := make([]vec, n+1)
	for i := range out {
		t := float64(i) / float64(n)
		out[i] = a.lerp(b, t).lerp(b.lerp(c, t), t)
	}
	return out
}

// box is an upright rectangle.
func box(x0, y0, x1, y1 float64) []vec {
	return []vec{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}
