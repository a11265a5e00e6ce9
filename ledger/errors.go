package ledger

import (
	"errors"
	"fmt"
)

// Code names a kind of error; people script against it. It is the code of the problem
// document that the API and the command line print.
type Code string

// The codes of this package.
const (
	CodeInvalid       Code = "invalid_request"
	CodeInsufficient  Code = "insufficient_credits"
	CodeNotFound      Code = "not_found"
	CodeSettled       Code = "already_settled"
	CodeConflict      Code = "conflict"
	CodeFenced        Code = "fenced"
	CodeKeyReused     Code = "idempotency_key_reused"
	CodeUnavailable   Code = "ledger_unavailable"
	CodeInternal      Code = "internal"
	CodeAccountClosed Code = "forbidden"
)

// Error is every refusal of the ledger. Compare with errors.Is against the Err values
// below (the code decides), or take the details with errors.As.
type Error struct {
	Code   Code
	Field  string // what the refusal is about, such as "amount"; "" when it is the whole request
	Detail string // one sentence for a person: what is wrong and what to do

	// Required and Available are credits, set with CodeInsufficient: what the job costs and
	// what could be spent.
	Required, Available int64

	cause error
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Detail
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code
}

// Unwrap returns what caused the error; nil for a refusal that the ledger decided itself.
func (e *Error) Unwrap() error { return e.cause }

// What errors.Is compares with.
var (
	// ErrInvalid refuses an input; nothing moved.
	ErrInvalid = &Error{Code: CodeInvalid, Detail: "invalid request"}
	// ErrInsufficientCredits refuses a charge that would pass the account's floor.
	ErrInsufficientCredits = &Error{Code: CodeInsufficient, Detail: "insufficient credits"}
	// ErrNotFound says that the account, job or grant does not exist for this tenant.
	ErrNotFound = &Error{Code: CodeNotFound, Detail: "not found"}
	// ErrAlreadySettled says that the job ended before, in another way.
	ErrAlreadySettled = &Error{Code: CodeSettled, Detail: "the job has ended"}
	// ErrConflict says that the same id stands for something else already.
	ErrConflict = &Error{Code: CodeConflict, Detail: "conflict"}
	// ErrFenced refuses an attempt that is not (or no longer) the job's current one.
	ErrFenced = &Error{Code: CodeFenced, Detail: "not the current attempt"}
	// ErrKeyReused says that the key was used before with other content.
	ErrKeyReused = &Error{Code: CodeKeyReused, Detail: "the key was used with other content"}
	// ErrUnavailable says that the ledger could not be reached, or that the result of a
	// commit is unknown. Repeat with the same key or id to learn it.
	ErrUnavailable = &Error{Code: CodeUnavailable, Detail: "the ledger is unavailable, try again with the same key"}
	// ErrInternal is a fault of ours; nothing was written for the command.
	ErrInternal = &Error{Code: CodeInternal, Detail: "internal error"}
	// ErrClosed refuses work on a closed account.
	ErrClosed = &Error{Code: CodeAccountClosed, Detail: "the account is closed"}
)

func invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Invalid builds an ErrInvalid about one field, for the layers above that check inputs of
// their own.
func Invalid(field, detail string) error {
	return &Error{Code: CodeInvalid, Field: field, Detail: detail}
}

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

func insufficient(required, available int64) *Error {
	return &Error{Code: CodeInsufficient, Required: required, Available: available,
		Detail: fmt.Sprintf("needs %d, has %d", required, available)}
}

// Unavailable wraps the cause of an outage; stores use it for their reads.
func Unavailable(cause error) error {
	return &Error{Code: CodeUnavailable, Detail: ErrUnavailable.Detail, cause: cause}
}

// NotFound builds an ErrNotFound that names what was looked for.
func NotFound(what, id string) error {
	return refuse(CodeNotFound, "%s %s does not exist", what, quoteShort(id))
}
