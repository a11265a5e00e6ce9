package paint

import (
	"fmt"
	"image"
	"image/color"

	"github.com/makegood/makegood/internal/typeset"
)

// top marks a summit on a map.
func (s *scene) top(face *typeset.Face, at vec, metres int) {
	u := s.unit()
	s.fill(s.ink, 0.9, over, []vec{at.add(vec{0, -5 * u}), at.add(vec{5 * u, 4 * u}), at.add(vec{-5 * u, 4 * u})})
	label := fmt.Sprint(metres)
	width := int(face.Width(label)) + 1
	mask := image.NewAlpha(image.Rect(int(at.x+9*u), int(at.y-18*u), int(at.x+9*u)+width+2, int(at.y+12*u)))
	face.Draw(mask, at.x+9*u, at.y+5*u, color.Opaque, label)
	s.clear(mask, s.paper)
	s.stamp(mask, s.ink, 0.95)
}

// clear clears the ground around a mask, so that lines do not cross text.
func (s *scene) clear(mask *image.Alpha, col rgb) {
	r := mask.Rect.Inset(-1)
	s.spotRect(r, func(x, y int) float64 {
		var a uint8
		for _, d := range [...]image.Point{{0, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
			a = max(a, mask.AlphaAt(x+d.X, y+d.Y).A)
		}
		return 0.7 * float64(a) / 255
	}, col)
}

// stamp paints col through a mask of coverage, for text inside a picture.
func (s *scene) stamp(mask *image.Alpha, col rgb, alpha float64) {
	s.spotRect(mask.Rect, func(x, y int) float64 { return alpha * float64(mask.AlphaAt(x, y).A) / 255 }, col)
}

// spotRect paints col over a rectangle, as strong as f says for each pixel.
func (s *scene) spotRect(r image.Rectangle, f func(x, y int) float64, col rgb) {
	r = r.Intersect(image.Rect(0, 0, s.w, s.h))
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			p := &s.pix[y*s.w+x]
			*p = p.lerp(col, f(x, y))
		}
	}
}
