package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/fakevendor"
)

func TestWhatIsWrongWithAnEnd(t *testing.T) {
	t.Parallel()
	good := end{State: "completed", Charged: cost, Deducts: 1, Completed: 1}
	require.Empty(t, good.wrong())
	for want, spoil := range map[string]func(*end){
		"failed":  func(e *end) { e.State = "failed" },
		"0 cred":  func(e *end) { e.Charged = 0 },
		"by 2 de": func(e *end) { e.Deducts = 2 },
		"0 times": func(e *end) { e.Completed = 0 },
	} {
		bad := good
		spoil(&bad)
		require.Contains(t, bad.wrong(), want)
	}
	require.NotEmpty(t, end{}.wrong(), "a job that is not there")
}

func TestWhatAVendorsBillSays(t *testing.T) {
	t.Parallel()
	ended := map[string]end{"a": {Type: app.GenerationType}, "b": {Type: app.GenerationType}, "c": {Type: "image"}}
	bill := fakevendor.Bill{Rows: []fakevendor.Row{{ID: "gen_1", Job: "a", Units: 1}}}
	twice, missing := twiceAtVendor(bill, ended)
	require.Empty(t, twice)
	require.Len(t, missing, 1)
	require.Contains(t, missing[0], "job b")

	bill.Rows = append(bill.Rows, fakevendor.Row{ID: "gen_2", Job: "b", Units: 1}, fakevendor.Row{ID: "gen_3", Job: "b", Units: 1, Beside: []string{"gen_2"}})
	twice, missing = twiceAtVendor(bill, ended)
	require.Empty(t, missing)
	require.Len(t, twice, 2)
	require.Contains(t, twice[0], "2 generations for job b")
	require.Contains(t, twice[1], "gen_3")
}
