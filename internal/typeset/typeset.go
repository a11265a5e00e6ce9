// Package typeset writes lines of text into pictures with the Go fonts.
package typeset

import (
	"image"
	"image/color"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goitalic"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// Font is a font of the program; parsed when first used.
type Font func() *sfnt.Font

// The fonts there are.
var (
	Regular = built(goregular.TTF)
	Bold    = built(gobold.TTF)
	Italic  = built(goitalic.TTF)
	Mono    = built(gomono.TTF)
)

func built(ttf []byte) Font {
	return sync.OnceValue(func() *sfnt.Font {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic("typeset: a font built into the program is broken: " + err.Error())
		}
		return f
	})
}

// Face is a font at a size. It is not safe for concurrent use.
type Face struct {
	font  *sfnt.Font
	face  font.Face
	buf   sfnt.Buffer
	width map[rune]fixed.Int26_6
}

// New makes a face of a size in pixels.
func New(f Font, size float64) *Face {
	face, err := opentype.NewFace(f(), &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		panic("typeset: a font built into the program is broken: " + err.Error())
	}
	return &Face{font: f(), face: face, width: map[rune]fixed.Int26_6{}}
}

// Width is the width of text in pixels.
func (f *Face) Width(text string) float64 {
	var sum fixed.Int26_6
	for _, r := range text {
		sum += f.advance(r)
	}
	return float64(sum) / 64
}

// Draw writes text with its base line starting at (x, y).
func (f *Face) Draw(dst draw.Image, x, y float64, col color.Color, text string) {
	d := font.Drawer{
		Dst: dst, Src: image.NewUniform(col), Face: f.face,
		Dot: fixed.Point26_6{X: fixed.Int26_6(x * 64), Y: fixed.Int26_6(y * 64)},
	}
	d.DrawString(text)
}

// maxRunes is more than any place has room for; longer text is not looked at.
const maxRunes = 600

// Legible puts text on one line: white space becomes single spaces, and a run
// of what the font cannot write becomes "…".
func (f *Face) Legible(text string) string {
	var out strings.Builder
	n, space, missing := 0, false, false
	for _, r := range text {
		if n++; n > maxRunes {
			break
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			space = out.Len() > 0
			continue
		}
		glyph, err := f.font.GlyphIndex(&f.buf, r)
		lost := err != nil || glyph == 0
		if lost && missing {
			continue
		}
		if space {
			out.WriteByte(' ')
		}
		space, missing = false, lost
		if lost {
			r = '…'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// Fit returns text, legible and shortened to a width in pixels: at a word where
// little is lost by it.
func (f *Face) Fit(text string, width float64) string {
	text = f.Legible(text)
	if f.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	n := f.reach(runes, width-f.Width("…"))
	cut := string(runes[:n])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)*2/3 && !unicode.IsSpace(runes[n]) {
		cut = cut[:i]
	}
	if cut = strings.TrimRight(cut, " ,.;:—–-…"); cut == "" {
		return ""
	}
	return cut + "…"
}

// Wrap breaks text into at most lines lines; the last one is shortened if needed.
func (f *Face) Wrap(text string, width float64, lines int) []string {
	var out []string
	for text = f.Legible(text); text != ""; {
		if len(out) == lines-1 || f.Width(text) <= width {
			return append(out, f.Fit(text, width))
		}
		runes := []rune(text)
		n := max(f.reach(runes, width), 1)
		line := string(runes[:n])
		if i := strings.LastIndexByte(line, ' '); i > 0 && n < len(runes) && runes[n] != ' ' {
			line = line[:i]
		}
		out = append(out, strings.TrimRight(line, " "))
		text = strings.TrimLeft(text[len(line):], " ")
	}
	return out
}

// Balance is Wrap with lines of about equal length.
func (f *Face) Balance(text string, width float64, lines int) []string {
	best := f.Wrap(text, width, lines)
	for narrow := width * 0.95; narrow > width/2; narrow *= 0.95 {
		try := f.Wrap(text, narrow, lines)
		if len(try) > len(best) || len(best) == lines {
			break
		}
		best = try
	}
	return best
}

// reach is how many runes fit into width.
func (f *Face) reach(runes []rune, width float64) int {
	var sum fixed.Int26_6
	for i, r := range runes {
		if sum += f.advance(r); float64(sum)/64 > width {
			return i
		}
	}
	return len(runes)
}

// advance is the width of one rune, remembered. The Go fonts have no kerning,
// so a line is as wide as its runes together.
func (f *Face) advance(r rune) fixed.Int26_6 {
	w, ok := f.width[r]
	if !ok {
		w, _ = f.face.GlyphAdvance(r)
		f.width[r] = w
	}
	return w
}
