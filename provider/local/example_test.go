package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"log"

	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/local"
)

func Example() {
	gen, err := local.New(local.Price(5))
	if err != nil {
		log.Fatal(err)
	}
	input := json.RawMessage(`{"prompt":"the sea at dawn","size":"384x256","n":2}`)
	estimate, err := gen.Estimate(input)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("will cost", estimate.Cost, "credits for", estimate.Units, "pictures")

	result, err := gen.Generate(context.Background(), provider.Request{Type: "image", Input: input}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, out := range result.Outputs {
		picture, _ := png.DecodeConfig(bytes.NewReader(out.Data))
		fmt.Println(out.ContentType, picture.Width, "x", picture.Height)
	}
	// Output:
	// will cost 10 credits for 2 pictures
	// image/png 384 x 256
	// image/png 384 x 256
}

// A refused input says which field is wrong and what would be right.
func ExampleGenerator_Estimate() {
	gen, _ := local.New()
	_, err := gen.Estimate(json.RawMessage(`{"prompt":"a lamp","n":12}`))
	fmt.Println(err)
	// Output: input field "n": 12 pictures; ask for 1 to 8
}

// FailWord lets the prompts of a demonstration say which job is to fail.
func ExampleFailWord() {
	gen, _ := local.New(local.FailWord("#broken"))
	input := json.RawMessage(`{"prompt":"a #broken lamp","size":"64x64"}`)
	_, err := gen.Generate(context.Background(), provider.Request{Type: "image", Input: input}, nil)
	fmt.Println(provider.IsPermanent(err), err)
	// Output: true the local provider was told to fail on prompts with the word "#broken"
}
