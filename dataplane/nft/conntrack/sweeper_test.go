// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
)

// clock is a clock that a test advances.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{now: time.Unix(1_000_000, 0)} }

// with returns cfg with the clock.
func (c *clock) with(cfg conntrack.Config) conntrack.Config {
	return conntrack.WithClock(cfg, func() time.Time { return c.now })
}

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// only returns a Judge that allows flows to one of the ports.
func only(ports ...uint16) conntrack.Judge {
	return func(f *conntrack.Flow) conntrack.Verdict {
		if slices.Contains(ports, f.Destination().Port()) {
			return conntrack.Allowed
		}
		return conntrack.Denied
	}
}

func always(v conntrack.Verdict) conntrack.Judge {
	return func(*conntrack.Flow) conntrack.Verdict { return v }
}

func newSweeper(t *testing.T, k *fakeKernel, cfg conntrack.Config) *conntrack.Sweeper {
	t.Helper()
	s, err := conntrack.NewSweeper(cfg, k.dial)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// stepUntilDone steps until nothing is pending, and advances the clock as the sweeper needs. It
// returns the passed time.
func stepUntilDone(t *testing.T, s *conntrack.Sweeper, c *clock) (passed time.Duration) {
	t.Helper()
	for range 100_000 {
		progress, err := s.Step(t.Context(), 64)
		require.NoError(t, err)
		if progress.Done {
			require.Zero(t, progress.Wait)
			return passed
		}
		passed += progress.Wait
		c.pass(progress.Wait)
	}
	t.Fatal("never done")
	return 0
}

// ports returns the destination ports of the flows in the table.
func (k *fakeKernel) ports() (ports []uint16) {
	for _, f := range k.flows {
		ports = append(ports, f.Destination().Port())
	}
	return ports
}

func fourFlows() []conntrack.Flow {
	return []conntrack.Flow{
		flow(6, "10.0.0.1:1001", "10.0.0.2:1"), flow(6, "10.0.0.1:1002", "10.0.0.2:2"),
		flow(17, "[fd00::1]:1003", "[fd00::2]:3"), flow(6, "10.0.0.1:1004", "10.0.0.2:4"),
	}
}

// A flow is ended exactly if the old ruleset allows it and the new one denies it.
func TestFlippedFlowsAreEnded(t *testing.T) {
	for name, c := range map[string]struct {
		before, after conntrack.Judge
		want          []uint16
	}{
		"two flip":               {only(1, 2, 3), only(3, 4), []uint16{3, 4}},
		"all flip":               {always(conntrack.Allowed), always(conntrack.Denied), nil},
		"denied as before":       {always(conntrack.Denied), always(conntrack.Denied), []uint16{1, 2, 3, 4}},
		"allowed now":            {always(conntrack.Denied), always(conntrack.Allowed), []uint16{1, 2, 3, 4}},
		"unknown before":         {always(conntrack.Unknown), always(conntrack.Denied), []uint16{1, 2, 3, 4}},
		"unknown after":          {always(conntrack.Allowed), always(conntrack.Unknown), []uint16{1, 2, 3, 4}},
		"no ruleset before":      {nil, always(conntrack.Denied), []uint16{1, 2, 3, 4}},
		"no ruleset after":       {always(conntrack.Allowed), nil, []uint16{1, 2, 3, 4}},
		"denied by both, or not": {only(2), only(), []uint16{1, 3, 4}},
	} {
		k, clk := newFakeKernel(fourFlows()...), newClock()
		s := newSweeper(t, k, clk.with(conntrack.Config{}))
		s.Change(c.before, c.after)
		stepUntilDone(t, s, clk)
		require.Equal(t, c.want, k.ports(), name)
		st := s.Stats()
		require.Equal(t, uint64(4-len(c.want)), st.Ended, name)
		require.Equal(t, uint64(4), st.Judged, name)
		require.Equal(t, uint64(1), st.Sweeps, name)
		require.Zero(t, st.Pending, name)
	}
}

// Flows end also if a ruleset allowed them that was replaced before the walk. Flows that the latest
// ruleset allows continue.
func TestReplacedRulesetsAreCompared(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{}))
	s.Change(only(1), only(2))
	s.Change(only(2), only(1, 4)) // 2 was allowed by the second ruleset only, 1 is allowed again, 3 was never allowed
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{1, 3, 4}, k.ports())
	require.Equal(t, 1, k.dumps, "one walk for both")
}

// Change and Stats may be called during Step. The race detector checks that.
func TestChangeDuringStepIsSafe(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{}))
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for range 100 {
			s.Change(only(1, 2), only(2))
			_ = s.Stats()
		}
	}()
	for done := false; !done; {
		select {
		case <-changed:
			done = true
		default:
		}
		_, err := s.Step(t.Context(), 1)
		require.NoError(t, err)
	}
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{2, 3, 4}, k.ports())
}

// A change during a walk begins a second walk, which judges the flows before it again.
func TestChangeDuringAWalk(t *testing.T) {
	var flows []conntrack.Flow
	for i := range 100 {
		flows = append(flows, numbered(i))
	}
	k, clk := newFakeKernel(flows...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1}))
	s.Change(always(conntrack.Allowed), always(conntrack.Allowed))
	progress, err := s.Step(t.Context(), 50)
	require.NoError(t, err)
	require.Equal(t, conntrack.Progress{}, progress, "half")
	require.Equal(t, uint64(50), s.Stats().Judged)
	require.Len(t, k.flows, 100)
	s.Change(always(conntrack.Allowed), only(5, 95))
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{5, 95}, k.ports())
	require.Equal(t, 2, k.dumps)
	require.Equal(t, uint64(2), s.Stats().Sweeps)
}

// A flow that waits for the rate is not ended if a later ruleset allows it.
func TestQueuedFlowIsEndedOnlyIfStillDenied(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1, EndRate: 1}))
	s.Change(always(conntrack.Allowed), always(conntrack.Denied))
	progress, err := s.Step(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, time.Second, progress.Wait)
	require.Len(t, k.flows, 3)
	s.Change(always(conntrack.Denied), only(3))
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{3}, k.ports())
}

func TestChangesWaitForTheDelay(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: time.Second}))
	s.Change(always(conntrack.Allowed), always(conntrack.Denied))
	clk.pass(999 * time.Millisecond)
	progress, err := s.Step(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, conntrack.Progress{Wait: time.Millisecond}, progress)
	require.Zero(t, k.dumps)
	// This walk ends the flows of a change that is not due yet, but the change needs another walk.
	s.Change(always(conntrack.Denied), always(conntrack.Denied))
	require.Equal(t, time.Second, stepUntilDone(t, s, clk))
	require.Empty(t, k.flows)
	require.Equal(t, 2, k.dumps)
}

// The rates hold over any period, except for a burst of a tenth of a second.
func TestRatesAreLimited(t *testing.T) {
	var flows []conntrack.Flow
	for i := range 1000 {
		flows = append(flows, numbered(i))
	}
	for name, c := range map[string]struct {
		cfg      conntrack.Config
		at, most time.Duration
	}{
		"end":   {conntrack.Config{EndRate: 100}, 9 * time.Second, 10 * time.Second},
		"judge": {conntrack.Config{JudgeRate: 100}, 9 * time.Second, 10 * time.Second},
		"none":  {conntrack.Config{}, 0, time.Second},
	} {
		k, clk := newFakeKernel(flows...), newClock()
		k.perPart = 7
		c.cfg.Delay = -1
		s := newSweeper(t, k, clk.with(c.cfg))
		s.Change(always(conntrack.Allowed), always(conntrack.Denied))
		start, left := clk.now, 1000
		for {
			progress, err := s.Step(t.Context(), 1000)
			require.NoError(t, err)
			left = len(k.flows)
			if progress.Done {
				break
			}
			if name != "none" {
				require.LessOrEqual(t, float64(1000-left), 10+7+100*clk.now.Sub(start).Seconds(), name)
			}
			clk.pass(progress.Wait)
		}
		require.Zero(t, left, name)
		require.GreaterOrEqual(t, clk.now.Sub(start), c.at, name)
		require.LessOrEqual(t, clk.now.Sub(start), c.most, name)
	}
}

// An expected flow ends with its master flow, whatever its own ports are.
func TestExpectedFlowsFollowTheirMaster(t *testing.T) {
	control, other := flow(6, "10.0.0.1:1001", "10.0.0.2:21"), flow(6, "10.0.0.1:1002", "10.0.0.3:2121")
	data, keep := flow(6, "10.0.0.1:1003", "10.0.0.2:50001"), flow(6, "10.0.0.1:1004", "10.0.0.3:50002")
	data.Status, data.Master = conntrack.StatusExpected, control.Original
	keep.Status, keep.Master = conntrack.StatusExpected, other.Original
	k, clk := newFakeKernel(keep, data, control, other), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{}))
	s.Change(only(21, 2121), only(2121))
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{50002, 2121}, k.ports())
}

func TestInterruptedWalkBeginsAgain(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	k.interrupt = func(number int) bool { return number < 5 }
	s := newSweeper(t, k, clk.with(conntrack.Config{}))
	s.Change(only(1), only(2))
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{2, 3, 4}, k.ports())
	require.Equal(t, 5, k.dumps)
	require.Equal(t, uint64(4), s.Stats().Interrupted)

	k.interrupt = func(int) bool { return true }
	s.Change(only(2), only())
	clk.pass(time.Second)
	_, err := s.Step(t.Context(), 1000)
	require.ErrorIs(t, err, conntrack.ErrInterrupted)
	require.Equal(t, 15, k.dumps)
	require.Equal(t, 1, s.Stats().Pending)
	progress, err := s.Step(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, conntrack.Progress{Wait: conntrack.DefaultRetry}, progress)
	k.interrupt = nil
	require.Equal(t, conntrack.DefaultRetry, stepUntilDone(t, s, clk))
	require.Equal(t, []uint16{3, 4}, k.ports())
}

// A flow that the kernel refuses to end does not hold up the others, and is tried again.
func TestRefusedFlowIsRetried(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	k.refuse = func(f conntrack.Flow) syscall.Errno {
		if f.Destination().Port() == 2 {
			return syscall.EBUSY
		}
		return 0
	}
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1}))
	s.Change(always(conntrack.Allowed), only(4))
	_, err := s.Step(t.Context(), 1000)
	var refused *conntrack.EndError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.Equal(t, uint16(2), refused.Flow.Destination().Port())
	require.Equal(t, "conntrack: end flow 6 10.0.0.1:1002 > 10.0.0.2:2: device or resource busy", err.Error())
	require.Equal(t, []uint16{2, 4}, k.ports())
	st := s.Stats()
	require.Equal(t, []uint64{2, 1, 0, 1}, []uint64{st.Ended, st.Failed, st.Vanished, uint64(st.Pending)})
	k.refuse = nil
	require.Equal(t, conntrack.DefaultRetry, stepUntilDone(t, s, clk))
	require.Equal(t, []uint16{4}, k.ports())
}

// If it is not known whether the kernel ended flows, the change stays pending, and a later pass
// ends them.
func TestFailedEndIsRetried(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1}))
	failures := 1
	conntrack.WithFaults(conntrack.Ender(s), func() error {
		if failures--; failures >= 0 {
			return syscall.ENOMEM
		}
		return nil
	})
	s.Change(always(conntrack.Allowed), only(4))
	_, err := s.Step(t.Context(), 1000)
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.Equal(t, 1, s.Stats().Pending)
	k.flows = fourFlows() // it did not end them
	require.Equal(t, conntrack.DefaultRetry, stepUntilDone(t, s, clk))
	require.Equal(t, []uint16{4}, k.ports())
}

// BeforeEnd gets the flows before they end. They end also if it fails, and the next pass follows
// soon.
func TestBeforeEnd(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	var got []uint16
	fault := errors.New("full")
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1, BeforeEnd: func(flows []conntrack.Flow) error {
		require.Len(t, k.flows, 4)
		for i := range flows {
			got = append(got, flows[i].Destination().Port())
		}
		return fault
	}}))
	s.Change(always(conntrack.Allowed), only(1, 4))
	progress, err := s.Step(t.Context(), 1000)
	require.NoError(t, err)
	require.Equal(t, conntrack.Progress{}, progress, "a change may follow meanwhile")
	require.Equal(t, []uint16{2, 3}, got)
	require.Len(t, k.flows, 4)
	_, err = s.Step(t.Context(), 1000)
	require.ErrorIs(t, err, fault)
	require.Equal(t, []uint16{1, 4}, k.ports())
	require.Equal(t, conntrack.DefaultRetry, stepUntilDone(t, s, clk))
	require.EqualValues(t, 2, s.Stats().Ended)
}

// BeforeEnd is called a few times for many flows, whatever the rates, and with each flow before it
// ends.
func TestBeforeEndIsRare(t *testing.T) {
	const flows = 3000
	var all []conntrack.Flow
	for i := range flows {
		all = append(all, numbered(i))
	}
	k, clk := newFakeKernel(all...), newClock()
	announced, calls := map[uint32]bool{}, 0
	s := newSweeper(t, k, clk.with(conntrack.Config{
		Delay: -1, EndRate: 1000, JudgeRate: 1000,
		BeforeEnd: func(queued []conntrack.Flow) error {
			calls++
			for _, f := range queued {
				announced[f.ID] = true
			}
			return nil
		},
		Hooks: conntrack.Hooks{Ending: func(f *conntrack.Flow) { require.True(t, announced[f.ID]) }},
	}))
	s.Change(always(conntrack.Allowed), always(conntrack.Denied))
	passed := stepUntilDone(t, s, clk)
	require.Empty(t, k.flows)
	require.LessOrEqual(t, calls, int(passed.Seconds())+2, "in %s", passed)
	require.Less(t, passed, 7*time.Second)
}

// If a change allows a flow that waits for BeforeEnd, the flow does not end.
func TestChangeWhileFlowsWaitForBeforeEnd(t *testing.T) {
	var all []conntrack.Flow
	for i := range 300 {
		all = append(all, numbered(i))
	}
	k, clk := newFakeKernel(all...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{
		Delay: -1, BeforeEnd: func([]conntrack.Flow) error { return nil },
	}))
	s.Change(always(conntrack.Allowed), always(conntrack.Denied))
	_, err := s.Step(t.Context(), 100) // some wait
	require.NoError(t, err)
	require.Len(t, k.ports(), 300)
	s.Change(always(conntrack.Denied), always(conntrack.Allowed))
	stepUntilDone(t, s, clk)
	require.Len(t, k.ports(), 300)
	require.Zero(t, s.Stats().Ended)
}

// A flow that a change allows during BeforeEnd does not end. The other flows are not passed to
// BeforeEnd again.
func TestChangeDuringBeforeEnd(t *testing.T) {
	var all []conntrack.Flow
	for i := range 300 {
		all = append(all, numbered(i))
	}
	k, clk := newFakeKernel(all...), newClock()
	var s *conntrack.Sweeper
	even := func(f *conntrack.Flow) conntrack.Verdict {
		if f.ID%2 == 0 {
			return conntrack.Allowed
		}
		return conntrack.Denied
	}
	calls := 0
	s = newSweeper(t, k, clk.with(conntrack.Config{Delay: -1, BeforeEnd: func(flows []conntrack.Flow) error {
		calls++
		require.Len(t, flows, 300)
		s.Change(always(conntrack.Denied), even)
		return nil
	}}))
	s.Change(always(conntrack.Allowed), always(conntrack.Denied))
	stepUntilDone(t, s, clk)
	require.Len(t, k.flows, 150)
	require.EqualValues(t, 150, s.Stats().Ended)
	require.Equal(t, 1, calls)
}

// If a flow ended by itself, the sweeper does not end a new flow with its tuple.
func TestReplacedFlowIsNotEnded(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Hooks: conntrack.Hooks{Ending: func(*conntrack.Flow) {
		k.flows = slices.Clone(k.flows)
		k.flows[0].ID++ // another flow with the same tuples
		k.flows = slices.Delete(k.flows, 1, 2)
	}}, EndRate: 1, JudgeRate: 100}))
	s.Change(only(1), only())
	stepUntilDone(t, s, clk)
	require.Equal(t, []uint16{1, 3, 4}, k.ports())
	st := s.Stats()
	require.Equal(t, []uint64{0, 1}, []uint64{st.Ended, st.Vanished})
}

func TestStepReturnsWhenContextIsDone(t *testing.T) {
	k, clk := newFakeKernel(fourFlows()...), newClock()
	s := newSweeper(t, k, clk.with(conntrack.Config{Delay: -1}))
	ctx, cancel := context.WithCancel(t.Context())
	s.Change(always(conntrack.Allowed), func(*conntrack.Flow) conntrack.Verdict {
		cancel()
		return conntrack.Denied
	})
	_, err := s.Step(ctx, 1000)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, k.flows, 4)
	stepUntilDone(t, s, clk)
	require.Empty(t, k.flows, "the next call continues")
	require.Equal(t, 1, k.dumps)
}

func TestConfigErrors(t *testing.T) {
	_, err := conntrack.New(conntrack.Config{NetNS: -1, JudgeRate: -1, EndRate: -1, Retry: -1})
	require.EqualError(t, err, "conntrack: Config.NetNS: -1 is not a file descriptor\n"+
		"conntrack: Config.JudgeRate: -1 is negative\nconntrack: Config.EndRate: -1 is negative\n"+
		"conntrack: Config.Retry: -1ns is negative")
	require.Equal(
		t, "keep end policy 7",
		conntrack.Policy(0).String()+" "+conntrack.End.String()+" "+conntrack.Policy(7).String(),
	)
}

func TestPolicyText(t *testing.T) {
	for _, want := range []conntrack.Policy{conntrack.Keep, conntrack.End} {
		text, err := want.MarshalText()
		require.NoError(t, err)
		got := conntrack.Policy(7)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, want, got)
	}
	_, err := conntrack.Policy(7).MarshalText()
	require.EqualError(t, err, "conntrack: policy 7 is neither keep nor end")
	got := conntrack.End
	require.EqualError(t, got.UnmarshalText([]byte("kill")), `conntrack: policy "kill" is neither keep nor end`)
	require.Equal(t, conntrack.End, got)
}
