// Package contactsheet lays pictures out on one page, with what became of each
// below it. Work that has no picture, because it failed or was refused, has its
// place on the page too: a quiet card that says why.
package contactsheet

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"

	"golang.org/x/image/draw"

	"github.com/makegood/makegood/internal/typeset"
)

// Item is one tile.
type Item struct {
	PNG      []byte // nil or empty: a card without a picture
	Title    string // up to two lines
	Subtitle string // one line, such as "ada · completed · 5 credits"
	Note     string // why there is no picture, or what was special about it; may be empty
}

// Measures of the page, in pixels.
const (
	tile    = 320 // side of the square in which a picture is fitted
	gap     = 36
	margin  = 56
	header  = 128
	caption = 104 // below a tile
)

var (
	page   = color.RGBA{0xf7, 0xf4, 0xee, 0xff}
	mat    = color.RGBA{0xec, 0xe7, 0xdc, 0xff}
	rule   = color.RGBA{0xd8, 0xd1, 0xc2, 0xff}
	ink    = color.RGBA{0x26, 0x22, 0x1f, 0xff}
	quiet  = color.RGBA{0x7c, 0x74, 0x6a, 0xff}
	accent = color.RGBA{0xb0, 0x4a, 0x2f, 0xff}
)

// PNG is Sheet, encoded.
func PNG(title, subtitle string, items []Item) ([]byte, error) {
	img, err := Sheet(title, subtitle, items)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return nil, fmt.Errorf("encode contact sheet: %w", err)
	}
	return buf.Bytes(), nil
}

// Sheet draws the page. An item whose PNG cannot be decoded is an error that
// names it.
func Sheet(title, subtitle string, items []Item) (*image.RGBA, error) {
	cols := columns(len(items))
	rows := (len(items) + cols - 1) / cols
	w := 2*margin + cols*tile + (cols-1)*gap
	h := header + rows*(tile+caption) + margin/3
	s := sheet{
		RGBA:  image.NewRGBA(image.Rect(0, 0, w, h)),
		title: typeset.New(typeset.Regular, 16), small: typeset.New(typeset.Regular, 13.5),
		note: typeset.New(typeset.Italic, 13.5), card: typeset.New(typeset.Italic, 17),
	}
	s.fill(s.Bounds(), page)
	s.heading(title, subtitle)
	for i, item := range items {
		at := image.Pt(margin+i%cols*(tile+gap), header+i/cols*(tile+caption))
		if err := s.tile(at, item); err != nil {
			return nil, fmt.Errorf("contact sheet, item %d (%s): %w", i+1, item.Title, err)
		}
	}
	return s.RGBA, nil
}

// columns makes pages a little wider than high, at least two tiles wide so that
// the heading has room.
func columns(n int) int {
	return min(max(int(math.Ceil(math.Sqrt(float64(n)*1.35))), 2), 6)
}

type sheet struct {
	*image.RGBA
	title, small, note, card *typeset.Face
}

func (s *sheet) fill(r image.Rectangle, c color.Color) {
	draw.Draw(s, r, image.NewUniform(c), image.Point{}, draw.Over)
}

func (s *sheet) heading(title, subtitle string) {
	width := float64(s.Bounds().Dx() - 2*margin)
	big, sub := typeset.New(typeset.Bold, 30), typeset.New(typeset.Regular, 16)
	big.Draw(s, margin, 64, ink, big.Fit(title, width))
	sub.Draw(s, margin, 92, quiet, sub.Fit(subtitle, width))
	s.fill(image.Rect(margin, 108, s.Bounds().Dx()-margin, 109), rule)
}

// tile draws one item with its captions.
func (s *sheet) tile(at image.Point, item Item) error {
	place := image.Rectangle{at, at.Add(image.Pt(tile, tile))}
	bottom := place.Max.Y
	if len(item.PNG) == 0 {
		s.empty(place, item.Note)
		item.Note = ""
	} else {
		img, err := png.Decode(bytes.NewReader(item.PNG))
		if err != nil {
			return fmt.Errorf("decode picture: %w", err)
		}
		s.picture(place, img)
	}
	x, y := float64(at.X), float64(bottom)+25
	for _, line := range s.title.Wrap(item.Title, tile, 2) {
		s.title.Draw(s, x, y, ink, line)
		y += 20
	}
	if item.Subtitle != "" {
		s.small.Draw(s, x, y, quiet, s.small.Fit(item.Subtitle, tile))
		y += 18
	}
	s.note.Draw(s, x, y, accent, s.note.Fit(item.Note, tile))
	return nil
}

// picture fits img into the tile, on a mat with a soft shadow.
func (s *sheet) picture(place image.Rectangle, img image.Image) {
	s.fill(place, mat)
	b := img.Bounds()
	k := math.Min(float64(tile)/float64(b.Dx()), float64(tile)/float64(b.Dy()))
	size := image.Pt(max(int(float64(b.Dx())*k+0.5), 1), max(int(float64(b.Dy())*k+0.5), 1))
	corner := place.Min.Add(image.Pt((tile-size.X)/2, (tile-size.Y)/2))
	target := image.Rectangle{corner, corner.Add(size)}
	if size.X != size.Y {
		for i := range 5 {
			s.fill(target.Inset(-i).Add(image.Pt(0, i/2)).Intersect(place), color.RGBA{0, 0, 0, 9})
		}
	}
	draw.CatmullRom.Scale(s, target, img, b, draw.Over, nil)
}

// empty is a tile without a picture: a frame, two short rules and the reason.
func (s *sheet) empty(place image.Rectangle, reason string) {
	s.fill(place, rule)
	s.fill(place.Inset(1), color.RGBA{0xfb, 0xf9, 0xf5, 0xff})
	if reason == "" {
		reason = "no picture"
	}
	const leading = 25
	lines := s.card.Balance(reason, tile-72, 7)
	mid := float64(place.Min.X) + tile/2
	y := float64(place.Min.Y) + tile/2 - float64(len(lines)-1)*leading/2 + 6
	s.dash(mid, y-38)
	for _, line := range lines {
		s.card.Draw(s, mid-s.card.Width(line)/2, y, quiet, line)
		y += leading
	}
	s.dash(mid, y-leading+26)
}

func (s *sheet) dash(x, y float64) {
	s.fill(image.Rect(int(x)-18, int(y), int(x)+18, int(y)+1), accent)
}
