package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// visit is one attempt at a job that a vendor makes: it submits what was not submitted, or
// asks after what was, and leaves. While the vendor works the job is back in the queue and no
// worker waits.
//
// Whatever was learned is written before anything that follows from it is done: the call's
// number before the submit, its reference before the first question.
type visit struct {
	w      *Worker
	a      *attempt
	job    ledger.Job // as it is now; the attempt's is as it was at the start
	vendor provider.Vendor
	traits provider.Traits
}

// ending is how a visit leaves its job.
type ending struct {
	do     endingKind
	after  time.Duration
	word   ledger.CallWord
	reason ledger.EndReason // of a fail; "" for vendor_error
	err    *ledger.JobError
}

type endingKind int

const (
	leave endingKind = iota // it is no longer this attempt's, or is written already
	yield
	fail
)

// atVendor runs a visit and writes its ending. The vendor is nil when the job has a call and
// this worker no longer knows who has it.
func (w *Worker) atVendor(a *attempt, v provider.Vendor) {
	end := ending{do: yield, after: longestWait, err: problem("no_handler", errors.New("this worker does not know the vendor that has the job"))}
	if v != nil && (a.job.Call == nil || a.job.Call.Provider == v.Name()) {
		visit := &visit{w: w, a: a, job: a.job, vendor: v, traits: v.Traits().WithDefaults()}
		end = visit.guarded()
	}
	w.write(a, end)
}

// guarded makes a panic of the vendor's code an error of the attempt.
func (v *visit) guarded() (end ending) {
	defer func() {
		if p := recover(); p != nil {
			err := v.w.panicked(v.a, p)
			end = ending{do: yield, after: v.patience(), err: problem("panic", err)}
		}
	}()
	return v.run()
}

// run decides by what is stored of the job's call.
func (v *visit) run() ending {
	switch call := v.job.Call; {
	case call == nil && v.cancelled():
		return ending{do: fail, reason: ledger.EndCancelled}
	case call == nil:
		return v.submit(false)
	case call.Status == ledger.CallClaimed:
		return v.find(call)
	default:
		return v.follow(call)
	}
}

// submit claims the call and sends it: a new one, or again one that nobody knows about.
func (v *visit) submit(resend bool) ending {
	var claimed ledger.Claimed
	err := v.w.settle(func(ctx context.Context) (err error) {
		claimed, err = v.w.o.Ledger.ClaimCall(ctx, ledger.ClaimCall{JobID: v.job.ID, Token: v.a.token, Provider: v.vendor.Name(), Resend: resend})
		return err
	})
	switch {
	case err != nil:
		v.a.log.Info("not submitted: the attempt is no longer the job's", "error", err)
		return ending{}
	case !claimed.Permit && claimed.Why == "cancelled" && !resend:
		return ending{do: fail, reason: ledger.EndCancelled}
	case !claimed.Permit:
		v.a.log.Info("not submitted", "why", claimed.Why)
		return ending{do: yield, after: v.patience()}
	}
	v.job = claimed.Job
	call := v.job.Call
	ctx, stop := v.request()
	defer stop()
	v.a.log.Info("submitting", "vendor", call.Provider, "n", call.N)
	crash.Here(crash.SubmitBefore)
	sent, err := v.vendor.Submit(ctx, provider.Request{JobID: v.job.ID, Key: call.Key(), Again: resend, Type: v.job.Type, Input: v.job.Input})
	crash.Here(crash.SubmitAfter)
	switch {
	case err == nil && sent.Ref == "":
		err = errors.New("the vendor accepted the request and named no reference")
		fallthrough
	case err != nil && !provider.IsRefused(err):
		v.a.log.Warn("nobody knows whether the vendor has the job", "vendor", call.Provider, "n", call.N)
		return ending{do: yield, after: v.soon(err), err: problem("vendor_unknown", err)}
	case provider.IsPermanent(err):
		return ending{do: fail, word: ledger.WordFailed, err: problem(refusal(err), err)}
	case err != nil:
		return ending{do: yield, after: backoff(v.job.Open.Attempts, err), word: ledger.WordFailed, err: problem("vendor_error", err)}
	}
	return v.accepted(call, sent)
}

// accepted stores the reference, before anything else, and goes on with what is known by now.
func (v *visit) accepted(call *ledger.Call, sent provider.Submission) ending {
	var heard ledger.Heard
	err := v.w.settle(func(ctx context.Context) (err error) {
		heard, err = v.w.o.Ledger.HearCall(ctx, ledger.HearCall{JobID: call.JobID, N: call.N, Provider: call.Provider, Ref: sent.Ref})
		return err
	})
	if err != nil {
		v.a.log.Error("the vendor's reference could not be stored", "vendor", call.Provider, "n", call.N, "vendor_ref", sent.Ref, "error", err)
		return ending{do: yield, after: v.patience(), err: problem("vendor_unknown", err)}
	}
	v.a.log.Info("accepted by the vendor", "vendor", call.Provider, "n", call.N, "vendor_ref", sent.Ref)
	call.Ref, call.Status = sent.Ref, ledger.CallAccepted
	switch {
	case heard.Job.End != nil, heard.Job.Call == nil, heard.Job.Call.N != call.N:
		v.stopOrphan(call)
		return ending{}
	case v.cancelled():
		return v.follow(call)
	case sent.News.Verdict():
		return v.judge(call, sent.News)
	case v.calledBack(call) != nil: // the callback was faster than our commit
		return v.follow(call)
	}
	return v.working(sent.News)
}

// stopOrphan cancels a call at the vendor whose job ended while it was sent, or went on with
// another call since the vendor did not know this one yet.
func (v *visit) stopOrphan(call *ledger.Call) {
	c, ok := v.vendor.(provider.Canceller)
	if !ok {
		v.a.log.Warn("the job ended, or went on without this call, while it was submitted; the vendor cannot be told to stop",
			"n", call.N, "vendor_ref", call.Ref)
		return
	}
	ctx, stop := v.request()
	defer stop()
	_, err := c.Cancel(ctx, call.Ref)
	crash.Here(crash.CancelVendor)
	v.a.log.Warn("the job ended, or went on without this call, while it was submitted; cancelled at the vendor",
		"n", call.N, "vendor_ref", call.Ref, "told", err == nil)
}

// find looks after a call that may have been sent and has no answer.
func (v *visit) find(call *ledger.Call) ending {
	safe := v.traits.Resubmit == provider.ResubmitSafe
	finder, ok := v.vendor.(provider.Finder)
	if !ok {
		switch {
		case v.cancelled(): // whatever the vendor makes of it, it is not this customer's
			return ending{do: fail, reason: ledger.EndCancelled}
		case safe:
			return v.submit(true)
		}
		return ending{do: yield, after: v.patience(), err: problem("vendor_unknown", errNobodyKnows)}
	}
	ctx, stop := v.request()
	defer stop()
	ref, err := finder.Find(ctx, call.Key())
	crash.Here(crash.Find)
	switch {
	case err == nil && ref != "":
		return v.accepted(call, provider.Submission{Ref: ref})
	case err == nil, !errors.Is(err, provider.ErrNotFound):
		return ending{do: yield, after: v.soon(err), err: problem("vendor_unknown", cmpErr(err, errNobodyKnows))}
	case safe && !v.cancelled() && v.now().Sub(call.ClaimedAt) < v.traits.FindAfter:
		return v.submit(true)
	case v.now().Sub(call.SentAt) < v.traits.FindAfter: // it may be on its way still
		return ending{do: yield, after: v.traits.FindAfter / 4, err: problem("vendor_unknown", err)}
	}
	return ending{do: yield, word: ledger.WordFailed, err: problem("vendor_lost", err)} // it never had it
}

var errNobodyKnows = errors.New("nobody knows whether the vendor has the job")

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// follow asks how an accepted call goes, or has it cancelled.
func (v *visit) follow(call *ledger.Call) ending {
	ctx, stop := v.request()
	defer stop()
	if v.cancelled() {
		c, ok := v.vendor.(provider.Canceller)
		if !ok {
			return ending{do: fail, reason: ledger.EndCancelled}
		}
		news, err := c.Cancel(ctx, call.Ref)
		crash.Here(crash.CancelVendor)
		if err != nil {
			v.a.log.Warn("the vendor could not be told to stop; it will be told again", "vendor_ref", call.Ref)
			return ending{do: yield, after: v.soon(err), err: problem("vendor_unreachable", err)}
		}
		v.a.log.Info("cancelled at the vendor", "vendor_ref", call.Ref, "status", string(news.Status), "units", news.Units)
		return v.judge(call, news)
	}
	poller, ok := v.vendor.(provider.Poller)
	if !ok {
		if news := v.calledBack(call); news != nil {
			return v.judge(call, *news)
		}
		return ending{do: yield, after: v.patience()}
	}
	news, err := poller.Poll(ctx, call.Ref)
	crash.Here(crash.Poll)
	if err != nil {
		return ending{do: yield, after: v.soon(err), err: problem("vendor_unreachable", err)}
	}
	return v.judge(call, news)
}

// calledBack is what the vendor called back with about a call: its verdict, or else its newest
// word; nil for nothing.
func (v *visit) calledBack(call *ledger.Call) *provider.News {
	ctx, stop := v.request()
	defer stop()
	events, err := v.w.o.Ledger.VendorEvents(ctx, call.Provider, call.Ref)
	if err != nil {
		return nil
	}
	var newest *provider.News
	for _, e := range events {
		news := provider.News{}
		if json.Unmarshal(e.News, &news) != nil {
			continue
		}
		if newest = &news; news.Verdict() {
			break // a verdict is the vendor's last word, whatever arrives after it
		}
	}
	return newest
}

// judge acts on the vendor's word.
func (v *visit) judge(call *ledger.Call, news provider.News) ending {
	switch news.Status {
	case provider.StatusSucceeded:
		return v.deliver(call, news)
	case provider.StatusCancelled:
		if news.Units > 0 {
			return v.deliver(call, news)
		}
		return ending{do: yield, word: ledger.WordCancelled, err: problem("vendor_cancelled", errors.New("the vendor has cancelled the call"))}
	case provider.StatusFailed:
		failure := errors.New(cmpText(news.Error, "the vendor says that it failed"))
		if news.Final {
			return ending{do: fail, word: ledger.WordFailed, err: problem("vendor_error", failure)}
		}
		return ending{do: yield, after: backoff(v.job.Open.Attempts, nil), word: ledger.WordFailed, err: problem("vendor_error", failure)}
	default:
		return v.working(news)
	}
}

func cmpText(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// working waits for the vendor at its own pace.
func (v *visit) working(news provider.News) ending {
	if o := v.job.Open; news.Percent != o.Percent || news.Text != o.Progress {
		ctx, stop := v.request()
		defer stop()
		text := clip(news.Text, progressLen)
		if err := v.w.o.Ledger.SaveProgress(ctx, v.job.ID, v.a.token, min(max(news.Percent, 0), 100), text); err != nil {
			v.a.log.Debug("progress was not saved", "error", err)
		}
	}
	after := news.After
	if after <= 0 {
		after = max(v.traits.Pace, min(v.patience(), 4*v.traits.Pace))
	}
	return ending{do: yield, after: after, word: ledger.WordWorking}
}

// deliver downloads what the call made and completes the job. The vendor has done its work:
// whatever goes wrong here is tried again, and never submitted again.
func (v *visit) deliver(call *ledger.Call, news provider.News) ending {
	ctx, stop := v.within(downloadWithin)
	defer stop()
	v.a.call = call
	made, err := v.vendor.Download(ctx, call.Ref, news)
	crash.Here(crash.Download)
	if err == nil {
		err = v.w.complete(v.a, resultOf(made))
	}
	switch {
	case err == nil:
		return ending{}
	case errors.Is(err, ledger.ErrUnavailable):
		return ending{} // the process ends before the ledger is back; the next attempt asks again
	case provider.IsPermanent(err):
		return ending{do: fail, word: ledger.WordFailed, err: problem("download_failed", err)}
	case errors.Is(err, errStore):
		return ending{do: yield, after: v.soon(err), word: ledger.WordWorking, err: problem("store_error", err)}
	}
	return ending{do: yield, after: v.soon(err), word: ledger.WordWorking, err: problem("download_failed", err)}
}

const (
	downloadWithin = 5 * time.Minute
	soonest        = time.Second
	longestWait    = time.Minute
)

// patience grows with the age of the call: from a second to a minute, as nobody knows when
// there will be news.
func (v *visit) patience() time.Duration {
	age := time.Duration(0)
	if call := v.job.Call; call != nil {
		age = v.now().Sub(call.ClaimedAt)
	}
	return min(max(age/4, soonest), longestWait)
}

// soon is the wait after an error: what the vendor asks for, or patience.
func (v *visit) soon(err error) time.Duration {
	if d, ok := provider.RetryDelay(err); ok {
		return max(d, soonest)
	}
	return v.patience()
}

// now is when the attempt started, by the ledger's clock: no worker's clock decides anything.
func (v *visit) now() time.Time { return v.job.Open.StartedAt }

// cancelled reports whether somebody asked to cancel the job.
func (v *visit) cancelled() bool {
	return !v.job.Open.CancelAt.IsZero() || errors.Is(context.Cause(v.a.ctx), ErrCancelled)
}

// request is the context of one request to the vendor. A cancelled job does not end it, since
// its answer must be known; a worker that has given the job back does.
func (v *visit) request() (context.Context, context.CancelFunc) { return v.within(v.traits.Timeout) }

func (v *visit) within(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.a.ctx), d)
	forget := context.AfterFunc(v.a.ctx, func() {
		if errors.Is(context.Cause(v.a.ctx), ErrShutdown) {
			cancel()
		}
	})
	return ctx, func() { forget(); cancel() }
}

// write writes a visit's ending.
func (w *Worker) write(a *attempt, end ending) {
	if end.do == leave {
		return
	}
	if errors.Is(context.Cause(a.ctx), ErrShutdown) {
		return // given back already
	}
	var left ledger.Failed
	err := w.settle(func(ctx context.Context) (err error) {
		if end.do == fail {
			left, err = w.o.Ledger.Fail(ctx, ledger.FailJob{JobID: a.job.ID, Token: a.token, Reason: end.reason, Error: end.err, Word: end.word})
		} else {
			left, err = w.o.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, After: end.after, Error: end.err, Word: end.word})
		}
		return err
	})
	code := ""
	if end.err != nil {
		code = end.err.Code
	}
	switch {
	case err != nil:
		a.log.Warn("the attempt is no longer the job's", "code", code, "error", err)
	case left.Job.End != nil:
		w.stats.failed.Add(1)
		a.log.Warn("the job ended", "code", code, "job_is", string(left.Job.End.Reason))
	default:
		w.stats.yielded.Add(1)
		a.log.Info("waits", "code", code, "word", string(end.word), "run_after", left.Job.Open.RunAfter)
	}
}

// recordLate writes down that a vendor delivered when the job had ended otherwise. It reports
// whether that is news: the vendor may have called back with it, or the job may have been
// completed with this very call by another attempt.
func (w *Worker) recordLate(a *attempt) bool {
	if a.call == nil {
		return true
	}
	var heard ledger.Heard
	err := w.settle(func(ctx context.Context) (err error) {
		heard, err = w.o.Ledger.HearCall(ctx, ledger.HearCall{JobID: a.job.ID, N: a.call.N, Provider: a.call.Provider, Succeeded: true})
		return err
	})
	if err != nil {
		a.log.Warn("the late success was not recorded", "error", err)
		return true
	}
	return heard.Late && !heard.Replayed
}

// problem names what went wrong at a vendor.
func problem(code string, err error) *ledger.JobError {
	return &ledger.JobError{Code: code, Message: clip(fmt.Sprint(err), 1000)}
}

// refusal names a permanent refusal.
func refusal(err error) string {
	if _, invalid := errors.AsType[*provider.InputError](err); invalid {
		return string(ledger.CodeInvalid)
	}
	return "vendor_error"
}

func resultOf(made provider.Result) Result {
	return Result{Outputs: made.Outputs, Text: made.Text, Units: made.Units, Cost: &made.Cost, Usage: made.Usage}
}
