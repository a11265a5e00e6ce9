package local

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/makegood/makegood/provider"
)

// ErrTold is the failure of a Generator that was told to fail.
var ErrTold = errors.New("the local provider was told to fail")

// Option changes what [New] makes.
type Option func(*Generator) error

// Price sets the credits for one picture, 0 or more.
func Price(credits int64) Option {
	return func(g *Generator) error {
		const limit = maxExact / maxPictures
		if credits < 0 || credits > limit {
			return fmt.Errorf("a price of %d credits; it must lie between 0 and %d", credits, int64(limit))
		}
		g.price = credits
		return nil
	}
}

// Duration makes each job take about d, waiting in small steps between which
// it reports progress. A job's pictures take longer than d if d is short.
func Duration(d time.Duration) Option {
	return func(g *Generator) error {
		if d < 0 {
			return fmt.Errorf("a duration of %s; it must not be negative", d)
		}
		g.duration = d
		return nil
	}
}

// DeliverAtMost makes a job that asks for more than n pictures deliver n, and
// charge for n.
func DeliverAtMost(n int) Option {
	return func(g *Generator) error {
		if n < 1 {
			return fmt.Errorf("deliver at most %d; it must be 1 or more", n)
		}
		g.deliver = n
		return nil
	}
}

// FailAlways makes every call fail for good.
func FailAlways() Option {
	return func(g *Generator) error { g.failAll = true; return nil }
}

// FailFirst makes the first k calls of Generate on this Generator fail in a way
// that is worth another attempt, as a vendor's bad minute does.
func FailFirst(k int) Option {
	return func(g *Generator) error {
		if k < 0 {
			return fmt.Errorf("fail the first %d calls; it must be 0 or more", k)
		}
		g.failLeft.Store(int64(k))
		return nil
	}
}

// FailOn lets f decide by the prompt. What it returns is the error of the call,
// unchanged: mark it with provider.Permanent or provider.RetryAfter as needed.
// Several FailOn and FailWord are asked in turn.
func FailOn(f func(prompt string) error) Option {
	return func(g *Generator) error { g.failOn = append(g.failOn, f); return nil }
}

// FailWord makes every prompt that contains word fail for good, so that a
// demonstration can be scripted by its prompts alone. Case and punctuation
// around a word of the prompt do not matter.
func FailWord(word string) Option {
	bare := func(s string) string { return strings.TrimFunc(s, unicode.IsPunct) }
	return func(g *Generator) error {
		if bare(word) == "" || strings.ContainsFunc(word, unicode.IsSpace) {
			return fmt.Errorf("a fail word of %q; it must be one word", word)
		}
		g.failOn = append(g.failOn, func(prompt string) error {
			for w := range strings.FieldsSeq(prompt) {
				if strings.EqualFold(bare(w), bare(word)) {
					return provider.Permanent(fmt.Errorf("%w on prompts with the word %q", ErrTold, word))
				}
			}
			return nil
		})
		return nil
	}
}
