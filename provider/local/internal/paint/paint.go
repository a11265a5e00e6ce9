// Package paint computes pictures from words. Nothing is looked up or learned:
// a style is a small program, a prompt's hash seeds it, and a few of its words
// steer style and colours. The same Spec gives the same pixels, on one
// architecture to the bit.
package paint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	"math/rand/v2"
	"slices"
)

// Spec names one picture.
type Spec struct {
	Prompt        string
	Width, Height int    // pixels, at least 16 each
	Style         string // one of Styles, or "" for what suits the prompt
	Seed          int64
	Index         int // place in a series, from 0; a series shares its colours
}

// manner is a way of painting.
type manner struct {
	name    string
	palette string // used unless the prompt asks for another; "" = any
	paint   func(*scene)
}

// styles in the order in which they are listed to people.
var styles = []manner{
	{"dunes", "", dunes},
	{"sea", "", sea},
	{"aurora", "midnight", aurora},
	{"city", "", city},
	{"ink", "", ink},
	{"glass", "", glass},
	{"contours", "", contours},
	{"botanical", "", botanical},
	{"watercolor", "", watercolor},
}

// Styles lists the names that Spec.Style takes.
func Styles() []string {
	names := make([]string, len(styles))
	for i, s := range styles {
		names[i] = s.name
	}
	return names
}

// Known says whether name is one of Styles.
func Known(name string) bool { return slices.Contains(Styles(), name) }

// scene is what a style works with.
type scene struct {
	*canvas
	colours
	*rand.Rand
	noise noise
}

// between is a random number from a up to b.
func (s *scene) between(a, b float64) float64 { return a + (b-a)*s.Float64() }

// accent is a random accent, mostly one of the quieter ones.
func (s *scene) accent() rgb {
	if s.Float64() < 0.08 {
		return s.accents[5]
	}
	return s.accents[s.IntN(5)]
}

// Picture paints spec, with the prompt as a caption below where there is room.
// It returns early with ctx's error once ctx is done.
func Picture(ctx context.Context, spec Spec) (*image.RGBA, error) {
	series := sha256.Sum256([]byte(spec.Prompt))
	how, pal := choose(spec.Prompt, spec.Style, binary.LittleEndian.Uint64(series[:]))
	single := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s", how.name, spec.Seed, spec.Index, spec.Prompt))
	a, b := binary.LittleEndian.Uint64(single[:]), binary.LittleEndian.Uint64(single[8:])

	img := image.NewRGBA(image.Rect(0, 0, spec.Width, spec.Height))
	strip := captionHeight(spec.Width, spec.Height)
	s := &scene{
		canvas:  newCanvas(ctx, spec.Width, spec.Height-strip),
		colours: pal.mixed(),
		Rand:    rand.New(rand.NewPCG(a, b)),
		noise:   noise(a ^ b<<1),
	}
	how.paint(s)
	s.develop(img)
	if err := s.err(); err != nil {
		return nil, err
	}
	caption(img, strip, spec, how.name, s.colours)
	return img, nil
}
