package paint

import (
	"context"
	"image"
	"image/draw"
	"math"

	"golang.org/x/image/vector"
)

// canvas is a picture in the making, in linear light with room above white.
//
// Once its context is done every operation returns at once without painting, as
// a bufio.Writer does after its first error: styles are written without error
// handling and the caller asks err at the end.
type canvas struct {
	ctx  context.Context
	w, h int
	pix  []rgb

	ras  vector.Rasterizer
	mask image.Alpha
}

func newCanvas(ctx context.Context, w, h int) *canvas {
	return &canvas{ctx: ctx, w: w, h: h, pix: make([]rgb, w*h)}
}

func (c *canvas) err() error { return c.ctx.Err() }
func (c *canvas) live() bool { return c.ctx.Err() == nil }

// unit is the measure all styles draw by: 1/1000 of the shorter side, so that a
// picture has the same composition at every size.
func (c *canvas) unit() float64 { return float64(min(c.w, c.h)) / 1000 }

// shade replaces every pixel by what f makes of its centre.
func (c *canvas) shade(f func(x, y float64, under rgb) rgb) {
	c.shadeRows(0, c.h, f)
}

// shadeRows does the same for rows y0 up to y1.
func (c *canvas) shadeRows(y0, y1 int, f func(x, y float64, under rgb) rgb) {
	for y := max(y0, 0); y < min(y1, c.h) && c.live(); y++ {
		row := c.pix[y*c.w:][:c.w]
		for x := range row {
			row[x] = f(float64(x)+0.5, float64(y)+0.5, row[x])
		}
	}
}

// blend says what paint of a given coverage (0..1) makes of the pixel under it.
type blend func(under, paint rgb, cover float64) rgb

func over(under, paint rgb, cover float64) rgb { return under.lerp(paint, cover) }

// light adds.
func light(under, paint rgb, cover float64) rgb { return under.add(paint.scale(cover)) }

// glaze lays a transparent pigment over what is there, as watercolour does.
func glaze(under, paint rgb, cover float64) rgb {
	f := float32(cover)
	for i := range under {
		under[i] *= 1 - f + f*paint[i]
	}
	return under
}

// fill paints the inside of closed outlines, anti-aliased.
func (c *canvas) fill(col rgb, alpha float64, how blend, outlines ...[]vec) {
	c.fillWith(func(_, _ float64) (rgb, float64) { return col, alpha }, how, outlines...)
}

// fillWith asks paint for the colour and opacity of each pixel inside.
func (c *canvas) fillWith(paint func(x, y float64) (rgb, float64), how blend, outlines ...[]vec) {
	box := bounds(outlines).Intersect(image.Rect(0, 0, c.w, c.h))
	if box.Empty() || !c.live() {
		return
	}
	c.rasterize(box, outlines)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		row := c.pix[y*c.w:][:c.w]
		cover := c.mask.Pix[(y-box.Min.Y)*c.mask.Stride:][:box.Dx()]
		for i, a := range cover {
			if a == 0 {
				continue
			}
			x := box.Min.X + i
			col, alpha := paint(float64(x)+0.5, float64(y)+0.5)
			row[x] = how(row[x], col, alpha*float64(a)/255)
		}
	}
}

// rasterize leaves the coverage of the outlines within box in c.mask.
func (c *canvas) rasterize(box image.Rectangle, outlines [][]vec) {
	w, h := box.Dx(), box.Dy()
	c.ras.Reset(w, h)
	c.ras.DrawOp = draw.Src
	ox, oy := float64(box.Min.X), float64(box.Min.Y)
	for _, o := range outlines {
		for i, p := range o {
			x, y := float32(p.x-ox), float32(p.y-oy)
			if i == 0 {
				c.ras.MoveTo(x, y)
			} else {
				c.ras.LineTo(x, y)
			}
		}
		c.ras.ClosePath()
	}
	if cap(c.mask.Pix) < w*h {
		c.mask.Pix = make([]uint8, w*h)
	}
	c.mask.Pix, c.mask.Stride, c.mask.Rect = c.mask.Pix[:w*h], w, image.Rect(0, 0, w, h)
	c.ras.Draw(&c.mask, c.mask.Rect, image.Opaque, image.Point{})
}

// disc paints a filled circle.
func (c *canvas) disc(at vec, r float64, col rgb, alpha float64, how blend) {
	c.spot(at, r+1, func(d float64) float64 { return alpha * clamp01(r-d+0.5) }, col, how)
}

// glow adds light that fades with the distance and ends at r.
func (c *canvas) glow(at vec, r float64, col rgb, strength float64) {
	c.spot(at, r, func(d float64) float64 {
		t := 1 - d/r
		return strength * t * t * t
	}, col, light)
}

// spot paints col around a point, as strong as f says for each distance below r.
func (c *canvas) spot(at vec, r float64, f func(d float64) float64, col rgb, how blend) {
	for y := max(int(at.y-r), 0); y <= min(int(at.y+r), c.h-1) && c.live(); y++ {
		for x := max(int(at.x-r), 0); x <= min(int(at.x+r), c.w-1); x++ {
			d := math.Hypot(float64(x)+0.5-at.x, float64(y)+0.5-at.y)
			if d < r {
				p := &c.pix[y*c.w+x]
				*p = how(*p, col, f(d))
			}
		}
	}
}

// vignette darkens towards the corners, by up to strength.
func (c *canvas) vignette(strength float64) {
	cx, cy := float64(c.w)/2, float64(c.h)/2
	c.shade(func(x, y float64, under rgb) rgb {
		dx, dy := (x-cx)/cx, (y-cy)/cy
		d := (dx*dx + dy*dy) / 2
		return under.scale(1 - strength*d*d)
	})
}

// grain roughens the surface like paper or film.
func (c *canvas) grain(n noise, strength float64) {
	c.shade(func(x, y float64, under rgb) rgb {
		return under.scale(1 + strength*(n.unit(int(x), int(y))-0.5))
	})
}

// develop turns the canvas into the upper part of dst. Light is dithered, so
// that slow gradients show no bands.
func (c *canvas) develop(dst *image.RGBA) {
	const dither = noise(0x6d616b65)
	for y := 0; y < c.h && c.live(); y++ {
		out := dst.Pix[y*dst.Stride:]
		for x := range c.w {
			p := &c.pix[y*c.w+x]
			d := float32(dither.unit(x, y))
			for i, v := range p {
				out[4*x+i] = uint8(min(encode(v)+d, 255))
			}
			out[4*x+3] = 255
		}
	}
}
