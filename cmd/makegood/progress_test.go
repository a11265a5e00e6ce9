package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	watch := func(terminal bool) string {
		var told bytes.Buffer
		synctest.Test(t, func(*testing.T) {
			p := newProgress(&told, terminal, "begun")
			time.Sleep(900 * time.Millisecond)
			p.set("%d rows", 5)
			time.Sleep(200 * time.Millisecond)
			p.set("%d rows", 6)
			time.Sleep(13 * time.Second)
			p.stop()
		})
		return told.String()
	}
	require.Equal(t, "5 rows  1s\n6 rows  2s\n6 rows  12s\n", watch(false), "a line for news, and now and then a sign of life")
	screen := watch(true)
	require.Regexp(t, `^\r\x1b\[K5 rows  1s\r\x1b\[K6 rows  1s`, screen)
	require.Regexp(t, `6 rows  14s\r\x1b\[K$`, screen, "the line is left clean")
}

func TestWhatIsOverAtOnceSaysNothing(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		p := newProgress(&told, true, "begun")
		time.Sleep(900 * time.Millisecond)
		p.stop()
	})
	require.Empty(t, told.String())
}
