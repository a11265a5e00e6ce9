package provider

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

func TestMarksAreSeenThroughWrappingAndKeepTheError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		err       error
		permanent bool
		delay     time.Duration
		hasDelay  bool
	}{
		{"plain", io.EOF, false, 0, false},
		{"permanent", Permanent(io.EOF), true, 0, false},
		{"permanent, wrapped", fmt.Errorf("call: %w", Permanent(io.EOF)), true, 0, false},
		{"retry", RetryAfter(io.EOF, time.Minute), false, time.Minute, true},
		{"retry, wrapped", fmt.Errorf("call: %w", RetryAfter(io.EOF, time.Minute)), false, time.Minute, true},
		{"retry at once", RetryAfter(io.EOF, -time.Second), false, 0, true},
		{"permanent beats retry", Permanent(RetryAfter(io.EOF, time.Minute)), true, 0, false},
		{"input", fmt.Errorf("decode: %w", errors.Join(io.EOF, Invalid("size", "too big; take %d", 5))), true, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !errors.Is(tt.err, io.EOF) {
				t.Errorf("errors.Is no longer finds what was marked in %v", tt.err)
			}
			if got := IsPermanent(tt.err); got != tt.permanent {
				t.Errorf("IsPermanent = %v, want %v", got, tt.permanent)
			}
			if d, ok := RetryDelay(tt.err); d != tt.delay || ok != tt.hasDelay {
				t.Errorf("RetryDelay = %v, %v, want %v, %v", d, ok, tt.delay, tt.hasDelay)
			}
		})
	}
}

func TestMarkingNilIsNil(t *testing.T) {
	t.Parallel()
	if err := Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) = %v", err)
	}
	if err := RetryAfter(nil, time.Second); err != nil {
		t.Errorf("RetryAfter(nil) = %v", err)
	}
	if IsPermanent(nil) {
		t.Error("nil is permanent")
	}
}

func TestInputErrorNamesTheField(t *testing.T) {
	t.Parallel()
	if got, want := Invalid("n", "%d is too many", 9).Error(), `input field "n": 9 is too many`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Invalid("", "not JSON").Error(), "input: not JSON"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
