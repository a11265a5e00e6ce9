package paint

import (
	"context"
	"fmt"
	"image"
	"math"
	"strings"
	"testing"
)

func mustPicture(t testing.TB, s Spec) *image.RGBA {
	t.Helper()
	img, err := Picture(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// entropy of the picture's grey values, in bits: 0 is one flat colour.
func entropy(img *image.RGBA) (bits float64) {
	var count [256]float64
	b := img.Bounds()
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := img.RGBAAt(x, y)
			count[(2*int(c.R)+5*int(c.G)+int(c.B))/8]++
		}
	}
	for _, n := range count {
		if n > 0 {
			p := n / float64(b.Dx()*b.Dy())
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

func TestEveryStyleFillsEverySize(t *testing.T) {
	t.Parallel()
	for _, style := range Styles() {
		for _, size := range [][2]int{{64, 64}, {320, 320}, {480, 160}, {64, 500}, {160, 161}} {
			t.Run(fmt.Sprintf("%s/%dx%d", style, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				img := mustPicture(t, Spec{Prompt: "a lamp", Width: size[0], Height: size[1], Style: style, Seed: 1})
				if img.Bounds() != image.Rect(0, 0, size[0], size[1]) || !img.Opaque() {
					t.Errorf("bounds %v, opaque %v", img.Bounds(), img.Opaque())
				}
				if bits := entropy(img); bits < 2.5 {
					t.Errorf("only %.2f bits of entropy, almost flat", bits)
				}
			})
		}
	}
}

func TestWordsSteerStyleAndColours(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]hint{
		"Two boats on the SEA":       {"sea", "tide"},
		"a city at night":            {"city", "violet"},
		"ferns and flowers":          {"botanical", "moss"},
		"fire in the desert":         {"dunes", "ember"},
		"a seamstress and her start": {},
		"":                           {},
	} {
		if got := suggested(prompt); got != want {
			t.Errorf("%q suggests %+v, want %+v", prompt, got, want)
		}
	}
	for word, h := range hints {
		if h.style != "" && !Known(h.style) {
			t.Errorf("%q asks for style %q, which does not exist", word, h.style)
		}
		if _, p := choose(word, "", 0); h.palette != "" && p.name != h.palette {
			t.Errorf("%q asks for palette %q and gets %q", word, h.palette, p.name)
		}
	}
	if s, _ := choose("a city at sea", "ink", 1); s.name != "ink" {
		t.Errorf("asked for ink, got %s", s.name)
	}
}

func TestStylesDifferFromEachOther(t *testing.T) {
	t.Parallel()
	var thumbs []*image.RGBA
	for _, style := range Styles() {
		thumbs = append(thumbs, mustPicture(t, Spec{Prompt: "a lamp", Width: 96, Height: 96, Style: style}))
	}
	for i, a := range thumbs {
		for j := range i {
			var sum float64
			for k := range a.Pix {
				sum += math.Abs(float64(a.Pix[k]) - float64(thumbs[j].Pix[k]))
			}
			if mean := sum / float64(len(a.Pix)); mean < 6 {
				t.Errorf("%s and %s differ by only %.1f of 255", Styles()[i], Styles()[j], mean)
			}
		}
	}
}

func TestDoneContextPaintsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, style := range Styles() {
		if img, err := Picture(ctx, Spec{Prompt: "p", Width: 512, Height: 512, Style: style}); err == nil || img != nil {
			t.Errorf("%s: got a picture from a dead context", style)
		}
	}
}

func TestColoursSurviveTheTripThroughOklab(t *testing.T) {
	t.Parallel()
	for _, v := range []uint32{0x000000, 0xffffff, 0x7a1f3d, 0x0f4c6b, 0xf8dca0} {
		c := srgb(hex(v).lab().rgb())
		if got := uint32(c.R)<<16 | uint32(c.G)<<8 | uint32(c.B); got != v {
			t.Errorf("%06x came back as %06x", v, got)
		}
	}
	if !strings.Contains(strings.Join(Styles(), " "), "watercolor") {
		t.Error("a style that the documentation names is gone")
	}
}
