package typeset

import (
	"slices"
	"strings"
	"testing"

	measure "golang.org/x/image/font"
)

func TestLegible(t *testing.T) {
	t.Parallel()
	f := New(Regular, 14)
	for in, want := range map[string]string{
		"  two\n\twords ": "two words", "": "", "海の朝": "…", "a 海の 朝 b": "a … b", "café": "café", "a\x00b": "a b",
	} {
		if got := f.Legible(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestNothingIsWiderThanItsRoom(t *testing.T) {
	t.Parallel()
	f := New(Italic, 16)
	for _, text := range []string{"short", "some words that will not fit into one line of this width", strings.Repeat("W", 900), "a " + strings.Repeat("m", 200) + " b"} {
		for _, width := range []float64{0, 9, 30, 80, 200, 4000} {
			if got := f.Fit(text, width); f.Width(got) > width {
				t.Errorf("Fit(%.10q, %v) is %v wide", text, width, f.Width(got))
			}
			lines := slices.Concat(f.Wrap(text, width, 3), f.Balance(text, width, 3))
			for _, line := range lines {
				if width >= 30 && f.Width(line) > width+0.5 {
					t.Errorf("Wrap(%.10q, %v): %q is %v wide", text, width, line, f.Width(line))
				}
			}
			if len(lines) > 6 {
				t.Errorf("Wrap(%.10q, %v, 3): %d lines from both", text, width, len(lines))
			}
		}
	}
}

func TestWidthIsWhatIsDrawn(t *testing.T) {
	t.Parallel()
	for name, font := range map[string]Font{"regular": Regular, "bold": Bold, "italic": Italic, "mono": Mono} {
		f := New(font, 16)
		const text = "AVATAR To Way, fi ffl · 1 204 …"
		if got, want := f.Width(text), float64(measure.MeasureString(f.face, text))/64; got != want {
			t.Errorf("%s: %v wide, drawn %v", name, got, want)
		}
	}
}

func TestWrapKeepsEveryWord(t *testing.T) {
	t.Parallel()
	f := New(Regular, 14)
	const text = "every word of this sentence has to come out again in order"
	for _, lines := range [][]string{f.Wrap(text, 110, 20), f.Balance(text, 110, 20)} {
		if got := strings.Join(lines, " "); got != text {
			t.Errorf("got %q", got)
		}
	}
}
