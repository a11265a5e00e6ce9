package fakevendor

import (
	"strings"
	"time"
)

// A Bill is what the vendor charges, and what it saw, at one moment. Comparing
// it with what should have been made is the caller's part.
type Bill struct {
	Rows  []Row        `json:"rows"` // in the order of acceptance
	Keys  []Key        `json:"keys"` // every idempotency key seen, sorted; "" holds what belongs to none
	Calls map[Kind]int `json:"calls"`
	Units int          `json:"units"`
	Cost  int64        `json:"cost"`
}

// A Row bills one accepted generation.
type Row struct {
	ID         string       `json:"id"`
	Key        string       `json:"key"`
	Job        string       `json:"job"` // the key before its last colon
	Status     Status       `json:"status"`
	AcceptedAt time.Time    `json:"accepted_at"`
	EndedAt    *time.Time   `json:"ended_at"` // nil while open
	Asked      int          `json:"asked"`    // units
	Units      int          `json:"units"`    // billed: all while open, then those delivered
	Cost       int64        `json:"cost"`
	Beside     []string     `json:"beside"` // ids of this job's generations that were open when this one was accepted
	Calls      map[Kind]int `json:"calls"`  // of its key
}

// Key is what was counted for an idempotency key, accepted or not.
type Key struct {
	Key        string       `json:"key"`
	Job        string       `json:"job"`
	Generation string       `json:"generation"` // id; "" = none was accepted
	Calls      map[Kind]int `json:"calls"`
}

// ByJob groups the rows by job.
func (b Bill) ByJob() map[string][]Row {
	jobs := map[string][]Row{}
	for _, row := range b.Rows {
		jobs[row.Job] = append(jobs[row.Job], row)
	}
	return jobs
}

// Job returns the generations accepted for a job, in order.
func (b Bill) Job(job string) []Row { return b.ByJob()[job] }

// Duplicates returns the jobs that more than one generation is billed for. Tries
// that failed or were cancelled with nothing delivered bill nothing.
func (b Bill) Duplicates() map[string][]Row {
	duplicates := map[string][]Row{}
	for job, rows := range b.ByJob() {
		var billed []Row
		for _, row := range rows {
			if row.Units > 0 {
				billed = append(billed, row)
			}
		}
		if len(billed) > 1 {
			duplicates[job] = billed
		}
	}
	return duplicates
}

// Overlaps returns the generations that were accepted while another of the same
// job was open: money was at risk twice, whatever they came to.
func (b Bill) Overlaps() []Row {
	var rows []Row
	for _, row := range b.Rows {
		if len(row.Beside) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// Count sums a kind over the keys that begin with prefix.
func (b Bill) Count(kind Kind, prefix string) int {
	n := 0
	for _, key := range b.Keys {
		if strings.HasPrefix(key.Key, prefix) {
			n += key.Calls[kind]
		}
	}
	return n
}
