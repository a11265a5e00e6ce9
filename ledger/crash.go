package ledger

import "github.com/makegood/makegood/internal/crash"

// crashBefore and crashAfter are where a process may die around a commit, for each command in
// it; see package crash. They cost nothing in a program that was not built for it.
func crashBefore(cmds ...Command) {
	for _, cmd := range cmds {
		before, _ := crashPoints(cmd)
		crash.Here(before)
	}
}

func crashAfter(cmds ...Command) {
	for _, cmd := range cmds {
		_, after := crashPoints(cmd)
		crash.Here(after)
	}
}

// crashPoints of a command; grants, adjustments and accounts are in no job's path.
func crashPoints(cmd Command) (before, after string) {
	switch cmd.(type) {
	case *OpenJob:
		return crash.OpenBefore, crash.OpenAfter
	case *StartJob:
		return crash.StartBefore, crash.StartAfter
	case *ClaimCall:
		return crash.ClaimBefore, crash.ClaimAfter
	case *HearCall:
		return crash.AnswerBefore, crash.AnswerAfter
	case *CompleteJob:
		return crash.CompleteBefore, crash.CompleteAfter
	case *FailJob:
		return crash.FailBefore, crash.FailAfter
	case *YieldJob:
		return crash.YieldBefore, crash.YieldAfter
	case *CancelJob:
		return crash.CancelBefore, crash.CancelAfter
	case *SightJob:
		return crash.SightBefore, crash.SightAfter
	case *PutBackJob:
		return crash.WatcherBefore, crash.WatcherAfter
	case *SweepJob:
		return crash.SweepBefore, crash.SweepAfter
	}
	return "", ""
}
