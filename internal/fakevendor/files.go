package fakevendor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/png"
)

const side = 64 // pixels of a picture

// picture draws the nth output of a generation: the same bytes each time, so
// that nothing needs to be kept.
func picture(id string, n int) []byte {
	seed := sha256.Sum256(fmt.Appendf(nil, "%s/%d", id, n))
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			img.SetNRGBA(x, y, color.NRGBA{
				R: seed[0] + uint8(x*int(seed[3]%8)),
				G: seed[1] + uint8(y*int(seed[4]%8)),
				B: seed[2] ^ uint8((x^y)*4),
				A: 255,
			})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // a buffer takes everything and the picture is well formed
	}
	return out.Bytes()
}

// outputs lists the first n pictures of a generation.
func outputs(base, id string, n int) []output {
	list := make([]output, n)
	for i := range list {
		data := picture(id, i)
		sum := sha256.Sum256(data)
		list[i] = output{
			URL:         fmt.Sprintf("%s/v1/files/%s/%d.png", base, id, i),
			ContentType: "image/png",
			Bytes:       len(data),
			SHA256:      hex.EncodeToString(sum[:]),
		}
	}
	return list
}
