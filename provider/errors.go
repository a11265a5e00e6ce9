package provider

import (
	"errors"
	"fmt"
	"time"
)

// Permanent marks err as one that no further attempt can change: the prompt was
// refused, the model is gone. The message stays as it is and errors.Is and
// errors.As see through the mark. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent says whether err, or an error it wraps, was marked by [Permanent]
// or is an [InputError].
func IsPermanent(err error) bool {
	if _, ok := errors.AsType[*permanentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*InputError](err)
	return ok
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// RetryAfter marks err as worth another attempt once d has passed, as vendors
// say with a Retry-After header. A negative d counts as zero.
// RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err: err, after: max(d, 0)}
}

// RetryDelay returns the delay that [RetryAfter] put on err. Without one, or if
// err is permanent all the same, ok is false.
func RetryDelay(err error) (d time.Duration, ok bool) {
	if IsPermanent(err) {
		return 0, false
	}
	e, ok := errors.AsType[*retryError](err)
	if !ok {
		return 0, false
	}
	return e.after, true
}

type retryError struct {
	err   error
	after time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// InputError says which field of an input is wrong and what to do about it. It
// is permanent, and callers show it to the client as invalid_request.
type InputError struct {
	Field  string // path inside the input, for example "size"; "" = the input as a whole
	Detail string // what is wrong and what would be right
}

func (e *InputError) Error() string {
	if e.Field == "" {
		return "input: " + e.Detail
	}
	return fmt.Sprintf("input field %q: %s", e.Field, e.Detail)
}

// Invalid makes an [InputError] with a formatted detail.
func Invalid(field, format string, args ...any) *InputError {
	return &InputError{Field: field, Detail: fmt.Sprintf(format, args...)}
}
