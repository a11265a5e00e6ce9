package ledger

import (
	"bytes"
	"encoding/json"
	"regexp"
	"time"
)

// OpenJob charges an account and puts a job into the queue, in one commit. Refused, it
// stores nothing, so the same key may try again.
type OpenJob struct {
	AccountName
	ID   string // minted when ""
	Key  string // "" for none; unique per tenant for ever
	Type string
	Cost int64 // credits; 0 runs for free
	// Units is how many pictures, clips, … are asked for; 0 means 1.
	Units    int
	Input    json.RawMessage // "" means {}
	Metadata json.RawMessage // an object; "" means {}
	// MaxAttempts counts runs that may call a vendor; 0 means DefaultMaxAttempts.
	MaxAttempts int
	// MaxWait is how long the job may stay in the queue; 0 means for ever.
	MaxWait time.Duration
	RetryOf string // an ended job of the same account; "" for none
	// CheckAfter is when the relay looks first, counted from now; 0 means at once. A caller
	// that enqueues the job itself leaves the relay a while.
	CheckAfter time.Duration
	Actor      string // "" means ActorClient
}

// DefaultMaxAttempts is used when OpenJob.MaxAttempts is 0.
const DefaultMaxAttempts = 5

// Opened answers OpenJob.
type Opened struct {
	Job Job
	// Replayed says that the job existed: the key was used before for the same thing.
	Replayed bool
}

var typeForm = regexp.MustCompile(`^[a-z][a-z0-9_.:-]{0,63}$`)

func (c *OpenJob) check() error {
	if c.ID == "" {
		c.ID = NewID()
	}
	if len(c.Input) == 0 {
		c.Input = json.RawMessage("{}")
	}
	if len(c.Metadata) == 0 {
		c.Metadata = json.RawMessage("{}")
	}
	c.Units = max(c.Units, 1)
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.Actor == "" {
		c.Actor = ActorClient
	}
	if err := c.AccountName.check(); err != nil {
		return err
	}
	if !typeForm.MatchString(c.Type) {
		return invalid("type", "%s is not a job type: a small letter, then up to 63 of a–z 0–9 _ . : -", quoteShort(c.Type))
	}
	if c.RetryOf != "" {
		if err := checkID("retry_of", c.RetryOf); err != nil {
			return err
		}
	}
	if c.MaxAttempts < 1 || c.MaxWait < 0 || c.CheckAfter < 0 {
		return invalid("max_attempts", "max_attempts must be at least 1, and waits not negative")
	}
	return firstError(checkID("id", c.ID), checkKey(c.Key), checkAmount("cost", c.Cost, 0),
		checkJSON("input", c.Input, MaxInputLen), checkMetadata(c.Metadata))
}

// Validate says what Open would refuse whatever the books say: an ErrInvalid, or nil.
func (c OpenJob) Validate() error { return c.check() }

func checkMetadata(raw json.RawMessage) error {
	if err := checkJSON("metadata", raw, MaxMetadataLen); err != nil {
		return err
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return invalid("metadata", "is not a JSON object")
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *OpenJob) names(n *Names) {
	n.Accounts = append(n.Accounts, c.AccountName)
	n.JobRefs = append(n.JobRefs, c.ID)
	if c.Key != "" {
		n.JobKeys = append(n.JobKeys, TenantKey{c.Tenant, c.Key})
	}
	if c.RetryOf != "" {
		n.JobRefs = append(n.JobRefs, c.RetryOf)
	}
}

func (c *OpenJob) lockKeys() []string { return []string{accountLock(c.AccountName)} }

func (c *OpenJob) fingerprint() []byte {
	return fingerprint("open", c.Name, c.Type, c.Cost, c.Units, c.Input, c.Metadata, c.MaxWait, c.RetryOf)
}

func (c *OpenJob) decide(b *Book) (any, error) {
	meant := c.fingerprint()
	if earlier, err := c.earlier(b, meant); earlier != nil || err != nil {
		return earlier, err
	}
	a, err := b.account(c.AccountName)
	if err != nil {
		return nil, err
	}
	if a.Status != AccountActive {
		return nil, ErrClosed
	}
	if err := c.checkRetry(b, a); err != nil {
		return nil, err
	}
	if c.Cost > 0 && spendable(a) < c.Cost {
		return nil, insufficient(c.Cost, max(spendable(a), 0))
	}
	if c.Cost > 0 && !inBounds(a.Balance-c.Cost) {
		return nil, invalid("cost", "would leave ±%d, the range of a balance", int64(MaxAmount))
	}
	j := c.newJob(b, a, meant)
	b.record(a, Entry{Kind: KindDeduct, Delta: -c.Cost, Floor: -a.Overdraft, JobID: j.ID, Reason: c.Type, Actor: c.Actor})
	b.held[a.ID] += c.Cost
	b.LoadJob(j)
	b.changes.Jobs = append(b.changes.Jobs, j)
	b.touch(j)
	return Opened{Job: j.clone()}, nil
}

// earlier finds the job that an earlier run of this command, or of the same key, made.
func (c *OpenJob) earlier(b *Book, meant []byte) (any, error) {
	j := b.jobs[c.ID]
	if c.Key != "" {
		if keyed := b.jobByKey[TenantKey{c.Tenant, c.Key}]; keyed != nil {
			j = keyed
		}
	}
	switch {
	case j == nil:
		return nil, nil
	case j.Tenant != c.Tenant || j.Key != c.Key:
		return nil, refuse(CodeConflict, "job %s exists already as something else", c.ID)
	case !bytes.Equal(j.Fingerprint, meant):
		return nil, &Error{Code: CodeKeyReused, Field: "key", Detail: "was used before with other content; use a new key"}
	}
	return Opened{Job: j.clone(), Replayed: j.ID != c.ID}, nil
}

func (c *OpenJob) checkRetry(b *Book, a *Account) error {
	if c.RetryOf == "" {
		return nil
	}
	earlier := b.jobs[c.RetryOf]
	if earlier == nil || earlier.AccountID != a.ID {
		return NotFound("job", c.RetryOf)
	}
	if earlier.End == nil {
		return refuse(CodeConflict, "job %s has not ended yet; only an ended job can be tried again", c.RetryOf)
	}
	return nil
}

func (c *OpenJob) newJob(b *Book, a *Account, meant []byte) *Job {
	j := &Job{ID: c.ID, Key: c.Key, Tenant: c.Tenant, AccountID: a.ID, Account: a.Name, Type: c.Type, Cost: c.Cost,
		Units: c.Units, Input: c.Input, Metadata: c.Metadata, MaxAttempts: c.MaxAttempts, RetryOf: c.RetryOf,
		CreatedAt: b.now, Fingerprint: meant}
	if c.MaxWait > 0 {
		j.WaitUntil = b.now.Add(c.MaxWait)
	}
	j.Open = &OpenState{Held: c.Cost, State: StateQueued, Epoch: 1, N: 1, QueuedAt: b.now, CheckAt: b.now.Add(c.CheckAfter)}
	return j
}
