package tasks

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/makegood/makegood/ledger"
)

// Charge is a task that charges itself: enqueued by plain asynq code with no Open before, it
// is opened by the worker that takes it. Without the credits it does not run, is not tried
// again and leaves nothing behind. Its Key makes it one job however often it is delivered,
// also when the same job is submitted under that key in the ordinary way.
type Charge struct {
	Tenant      string          `json:"tenant"`
	Account     string          `json:"account"`
	Type        string          `json:"type"`
	Key         string          `json:"key"` // required
	Cost        int64           `json:"cost"`
	Units       int             `json:"units"`
	Input       json.RawMessage `json:"input,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	MaxAttempts int             `json:"max_attempts"`
	MaxWait     time.Duration   `json:"max_wait"`
}

func (c Charge) open() ledger.OpenJob {
	return ledger.OpenJob{AccountName: ledger.AccountName{Tenant: c.Tenant, Name: c.Account}, Key: c.Key, Type: c.Type, Cost: c.Cost,
		Units: c.Units, Input: c.Input, Metadata: c.Metadata, MaxAttempts: c.MaxAttempts, MaxWait: c.MaxWait, CheckAfter: firstLook}
}

// NewTask makes the asynq task of a Charge. Enqueue it with any asynq client; it names its
// queue itself.
func NewTask(c Charge) (*asynq.Task, error) {
	if c.Key == "" {
		return nil, ledger.Invalid("key", "is required: a task may be delivered twice, and the key makes it one charge")
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode charge: %w", err)
	}
	return asynq.NewTask(TypeCharge, payload, asynq.Queue(Queue), asynq.MaxRetry(1000), asynq.Timeout(25*time.Hour)), nil
}
