package contactsheet

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"golang.org/x/image/draw"
)

func flat(t *testing.T, w, h int, c color.Color) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestPicturesKeepTheirAspect(t *testing.T) {
	t.Parallel()
	red := color.RGBA{200, 0, 0, 255}
	for _, size := range []image.Point{{300, 300}, {600, 300}, {100, 400}, {40, 2000}} {
		img, err := Sheet("Title", "subtitle", []Item{{PNG: flat(t, size.X, size.Y, red), Title: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		// given: the picture's extent along both axes through the tile's centre
		cx, cy := margin+tile/2, header+tile/2
		w, h := 0, 0
		for d := -tile / 2; d < tile/2; d++ {
			if img.RGBAAt(cx+d, cy) == red {
				w++
			}
			if img.RGBAAt(cx, cy+d) == red {
				h++
			}
		}
		if max(w, h) < tile-1 {
			t.Errorf("%v: shown as %dx%d, does not fill the tile", size, w, h)
		}
		if want := tile * min(size.X, size.Y) / max(size.X, size.Y); min(w, h) < want-1 || min(w, h) > want+1 {
			t.Errorf("%v: shown as %dx%d", size, w, h)
		}
	}
}

func TestEveryNumberOfItemsFitsThePage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long words and more of them ", 30)
	for _, n := range []int{0, 1, 2, 3, 5, 15, 40} {
		items := make([]Item, n)
		for i := range items {
			items[i] = Item{Title: long, Subtitle: long, Note: strings.Repeat("unbreakable", 40)}
		}
		img, err := Sheet(long, long, items)
		if err != nil {
			t.Fatal(err)
		}
		w, h := img.Bounds().Dx(), img.Bounds().Dy()
		if n > 0 && columns(n)*((h-header)/(tile+caption)) < n {
			t.Errorf("%d items do not fit %dx%d", n, w, h)
		}
		for y := range h {
			if img.RGBAAt(w-margin/2, y) != page {
				t.Fatalf("%d items: something reaches into the right margin at %d", n, y)
			}
		}
	}
}

func TestBrokenPictureIsNamed(t *testing.T) {
	t.Parallel()
	_, err := PNG("t", "s", []Item{{Title: "fine"}, {Title: "torn", PNG: []byte("not a png")}})
	if err == nil || !strings.Contains(err.Error(), "item 2 (torn)") {
		t.Errorf("got %v", err)
	}
}
