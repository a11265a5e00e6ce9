package paint

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"

	"github.com/makegood/makegood/internal/typeset"
)

// captionHeight is the height of the strip below the picture, 0 where a line of
// text could not be read.
func captionHeight(w, h int) int {
	if min(w, h) < 160 {
		return 0
	}
	return int(math.Round(captionSize(w, h) * 2.9))
}

// captionSize is the size of the text in pixels.
func captionSize(w, h int) float64 {
	return math.Max(11, 0.0255*math.Sqrt(float64(w)*float64(h)))
}

// caption writes the prompt on the left, style and seed on the right.
func caption(img *image.RGBA, height int, spec Spec, style string, c colours) {
	if height == 0 {
		return
	}
	w, h := float64(spec.Width), float64(spec.Height)
	strip := image.Rect(0, spec.Height-height, spec.Width, spec.Height)
	draw.Draw(img, strip, image.NewUniform(srgb(c.paper)), image.Point{}, draw.Src)

	size := captionSize(spec.Width, spec.Height)
	text, small := typeset.New(typeset.Italic, size), typeset.New(typeset.Regular, size*0.8)
	margin, base := size*1.1, h-float64(height)/2+size*0.33

	right := fmt.Sprintf("%s · %d", style, spec.Seed)
	if spec.Index > 0 {
		right += fmt.Sprintf(" · %d", spec.Index+1)
	}
	x := w - margin - small.Width(right)
	if x < w*0.4 { // a long seed in a narrow picture
		right = style
		x = w - margin - small.Width(right)
	}
	small.Draw(img, x, base, srgb(c.ink.mix(c.paper, 0.42)), right)
	text.Draw(img, margin, base, srgb(c.ink.mix(c.paper, 0.08)), text.Fit(spec.Prompt, x-margin-size*1.4))
}

func srgb(c rgb) color.RGBA {
	return color.RGBA{uint8(encode(c[0]) + 0.5), uint8(encode(c[1]) + 0.5), uint8(encode(c[2]) + 0.5), 255}
}
