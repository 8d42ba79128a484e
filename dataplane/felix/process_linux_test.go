// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix"
	"github.com/wayleave/wayleave/policy/worlds"
)

// started starts a driver with a state. Its faults, except pending endpoints, fail the test.
func (r *rig) started(dp *felix.Dataplane, s dptest.State) {
	r.t.Helper()
	err := dp.Apply(r.t.Context(), first(s))
	if !isPending(err) {
		require.NoError(r.t, err)
	}
}

// retried applies empty batches until Apply returns no general error.
func retried(t *testing.T, dp *felix.Dataplane) error {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = dp.Apply(t.Context(), dataplane.Batch{})
		_, general := dataplane.ApplyErrors(err)
		return !general
	}, waitTimeout, time.Millisecond)
	return err
}

// ended applies empty batches until Apply returns a general error, and returns that.
func ended(t *testing.T, dp *felix.Dataplane) (err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		err = dp.Apply(t.Context(), dataplane.Batch{})
		_, general := dataplane.ApplyErrors(err)
		return general
	}, waitTimeout, time.Millisecond)
	return err
}

// The first message has the settings, then objects come in the order of a batch, then InSync, then
// changes. Nothing is sent before the state is complete.
func TestOrderOfMessages(t *testing.T) {
	r := newRig(t)
	dp := r.open()
	early := dptest.NewState()
	early.Namespaces["n"] = &dataplane.Namespace{Name: "n"}
	require.NoError(t, dp.Apply(t.Context(), first(early)))
	require.NoError(t, dp.Resync(t.Context()))
	require.Equal(t, felix.Stats{}, dp.Stats())
	full := world("a")
	full.Namespaces = early.Namespaces
	full.Sets["s:a"] = dptest.Set{Members: members(1)}
	full.Profiles["p"] = &dataplane.Profile{}
	require.True(t, isPending(dp.Apply(t.Context(), batch(early, full))))
	less := full.Clone()
	delete(less.Endpoints, endpointKey("a"))
	require.NoError(t, dp.Apply(t.Context(), batch(full, less)))
	a, err := r.query(dp, request{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"InterfacePrefix": "wl"}, a.Config)
	var types []string
	for _, m := range a.Messages {
		types = append(types, strings.TrimPrefix(m, "*felixpb.ToDataplane_"))
	}
	require.Equal(t, []string{
		"ConfigUpdate", "IpsetUpdate", "ActiveProfileUpdate",
		"ActiveProfileUpdate", "WorkloadEndpointUpdate", "Encapsulation", "NamespaceUpdate",
		"InSync", "WorkloadEndpointRemove",
	}, types)
	require.EqualValues(t, len(types), dp.Stats().Sent)
}

// overPipe is a number of members that take more bytes than a pipe buffers.
const overPipe = 20_000

func members(n int) []dataplane.Member {
	list := make([]dataplane.Member, n)
	for i := range list {
		list[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	return list
}

// Large sets come in several messages, and a set that is replaced as its differences. A driver that
// reads slowly gets all messages.
func TestLargeSets(t *testing.T) {
	for _, mode := range []string{"", "slow"} {
		r := newRig(t)
		r.set("mode", mode)
		dp := r.open()
		n := 25_000
		s := world()
		s.Sets["s:a"] = dptest.Set{Members: members(n)}
		r.started(dp, s)
		require.Equal(t, sentState(s).String(), r.dump(dp))
		sent := dp.Stats().Sent
		s = world()
		s.Sets["s:a"] = dptest.Set{Members: members(n + 2)[2:]}
		require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
			&dataplane.IPSetUpdate{ID: "s:a", Members: s.Sets["s:a"].Members},
		}}))
		require.Equal(t, sentState(s).String(), r.dump(dp))
		require.Equal(t, sent+1, dp.Stats().Sent)
	}
}

// A driver that ends, or breaks the protocol, is reported with the reason, also while it gets the
// state. The next one has the whole state.
func TestDriverBreaks(t *testing.T) {
	for mode, reason := range map[string]string{
		"exit":         "the driver has ended",
		"fail":         "exit status 3",
		"garbage":      "the driver violates the protocol: ",
		"long":         "a message of 1099511627776 bytes, at most 4194304",
		"part":         "the driver has ended",
		"close output": "the driver has closed its output",
	} {
		for _, size := range []int{1, overPipe} {
			t.Run(fmt.Sprint(mode, " ", size), func(t *testing.T) {
				r := newRig(t)
				r.set("mode", mode)
				if mode == "close output" {
					r.cfg.Grace = time.Millisecond
				}
				s := world("a", "b")
				s.Sets["s:a"] = dptest.Set{Members: members(size)}
				dp := r.open()
				drifts := watch(t, dp)
				err := dp.Apply(t.Context(), first(s))
				if isPending(err) {
					err = ended(t, dp)
				}
				require.ErrorIs(t, err, felix.ErrNotRunning)
				require.ErrorContains(t, err, reason)
				r.set("mode", "")
				_ = retried(t, dp)
				require.NoError(t, waitApplied(t, dp, drifts, dataplane.Batch{}))
				require.Equal(t, sentState(s).String(), r.dump(dp))
			})
		}
	}
}

// A driver that closes its input and does not exit is killed after the grace.
func TestDriverClosesInput(t *testing.T) {
	r := newRig(t)
	r.set("mode", "close input")
	r.cfg.Grace = 10 * time.Millisecond
	dp := r.open()
	s := world()
	s.Sets["s:a"] = dptest.Set{Members: members(overPipe)}
	err := dp.Apply(t.Context(), first(s))
	require.ErrorIs(t, err, felix.ErrNotRunning)
	require.ErrorContains(t, err, "the driver has closed its input")
	r.set("mode", "")
	require.NoError(t, retried(t, dp))
	require.Equal(t, sentState(s).String(), r.dump(dp))
}

// A driver has ended when its process has, although another process has its output.
func TestDriverLeavesProcess(t *testing.T) {
	r := newRig(t)
	r.set("mode", "leave")
	dp := r.open()
	t.Cleanup(func() {
		pid, err := os.ReadFile(filepath.Join(r.folder, "other"))
		require.NoError(t, err)
		n, err := strconv.Atoi(string(pid))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	})
	if err := dp.Apply(t.Context(), first(world("a"))); isPending(err) {
		require.ErrorContains(t, ended(t, dp), "the driver has ended")
	}
	r.set("mode", "")
	require.True(t, isPending(retried(t, dp)))
}

// A driver that does not read is killed after the timeout, or when the context is done.
func TestDriverHangs(t *testing.T) {
	s := world()
	s.Sets["s:a"] = dptest.Set{Members: members(overPipe)}
	r := newRig(t)
	r.set("mode", "hang")
	r.cfg.Timeout = 50 * time.Millisecond
	dp := r.open()
	err := dp.Apply(t.Context(), first(s))
	require.ErrorIs(t, err, felix.ErrNotRunning)
	require.ErrorContains(t, err, "the driver did not read for 50ms")

	r.cfg.Timeout = waitTimeout
	dp = r.open()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, dp.Apply(ctx, first(s)), context.DeadlineExceeded)
	r.set("mode", "")
	require.NoError(t, retried(t, dp))
	require.Equal(t, sentState(s).String(), r.dump(dp))
}

// A driver that cannot be started is tried again.
func TestDriverCannotBeStarted(t *testing.T) {
	r := newRig(t)
	command := r.cfg.Command[0]
	binary, err := os.Readlink(command)
	require.NoError(t, err)
	require.NoError(t, os.Remove(command))
	dp := r.open()
	err = dp.Apply(t.Context(), first(world("a")))
	require.ErrorIs(t, err, felix.ErrNotRunning)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Zero(t, dp.Stats().Starts)
	require.NoError(t, os.Symlink(binary, command))
	require.NoError(t, waitApplied(t, dp, watch(t, dp), dataplane.Batch{}))
}

// A driver that always ends at once is not started more often than the back-off allows.
func TestBackoff(t *testing.T) {
	r := newRig(t)
	r.set("mode", "exit")
	r.cfg.MaxBackoff = time.Hour
	dp := r.open()
	require.Error(t, dp.Apply(t.Context(), first(world("a"))))
	require.Eventually(t, func() bool {
		err := dp.Apply(t.Context(), dataplane.Batch{})
		return err != nil && strings.Contains(err.Error(), "next start in ")
	}, 10*time.Second, time.Millisecond)
	for range 1000 {
		require.ErrorIs(t, dp.Apply(t.Context(), dataplane.Batch{}), felix.ErrNotRunning)
	}
	require.LessOrEqual(t, dp.Stats().Starts, uint64(4))
}

// Whenever the driver is killed, a dataplane.Driver ends in the state that it was sent.
func TestDriverIsKilled(t *testing.T) {
	r := newRig(t)
	dp := r.open()
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{dp}, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	run(t, driver.Run)
	gen := worlds.New(worlds.Config{Seed: 7})
	graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	graph.InSync()
	want := dptest.NewMirror()
	files := openFiles(t)
	for range 300 {
		for range 5 {
			graph.Update(gen.Update())
		}
		b := graph.Flush()
		require.NoError(t, want.Play(b))
		require.NoError(t, driver.Send(t.Context(), b))
		if rand.N(3) == 0 {
			kill(t, dp) // while it gets the batch, or before
		}
	}
	require.Greater(t, dp.Stats().Starts, uint64(5))
	require.NoError(t, driver.WaitApplied(t.Context()))
	require.Eventually(t, func() bool {
		a, err := r.query(dp, request{})
		return err == nil && a.Dump == sentState(want.State()).String()
	}, waitTimeout, time.Millisecond)
	for key := range want.State().Endpoints {
		require.Eventually(t, func() bool {
			return driver.Status().Endpoints[key].State != dataplane.EndpointPending
		}, waitTimeout, time.Millisecond)
	}
	require.Eventually(t, func() bool { return openFiles(t) <= files+4 }, waitTimeout, time.Millisecond,
		"the files of killed drivers were not closed")
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// Close ends the driver, with SIGKILL if it does not end with its input, and leaves no process and
// no file.
func TestClose(t *testing.T) {
	for mode, reason := range map[string]string{"": "", "endless": "did not exit after its input was closed"} {
		files := openFiles(t)
		r := newRig(t)
		r.set("mode", mode)
		r.cfg.Grace = 50 * time.Millisecond
		dp := r.open()
		require.NoError(t, dp.Close(), "without a driver")
		require.ErrorIs(t, dp.Apply(t.Context(), first(world("a"))), felix.ErrClosed)

		r.cfg.Grace = waitTimeout
		if mode != "" {
			r.cfg.Grace = 50 * time.Millisecond
		}
		dp = r.open()
		r.started(dp, world("a"))
		r.dump(dp)
		pid := dp.Stats().PID
		require.NotZero(t, pid)
		err := dp.Close()
		if reason == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, reason)
		}
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "the process still exists, perhaps as a zombie")
		require.ErrorIs(t, dp.Apply(t.Context(), dataplane.Batch{}), felix.ErrClosed)
		require.Zero(t, dp.Stats().PID)
		require.Equal(t, files, openFiles(t))
	}
}

// Close ends an Apply that waits for the driver.
func TestCloseDuringApply(t *testing.T) {
	r := newRig(t)
	r.set("mode", "hang")
	r.cfg.Grace = 10 * time.Millisecond
	dp := r.open()
	s := world()
	s.Sets["s:a"] = dptest.Set{Members: members(overPipe)}
	applied := make(chan error, 1)
	go func() { applied <- dp.Apply(t.Context(), first(s)) }()
	require.Eventually(t, func() bool { return dp.Stats().PID != 0 }, waitTimeout, time.Millisecond)
	_ = dp.Close()
	require.ErrorIs(t, <-applied, felix.ErrNotRunning)
}

// Teardown removes everything from the kernel, also the objects of an earlier run. The next state
// starts from empty.
func TestTeardown(t *testing.T) {
	r := newRig(t)
	dp := r.open()
	drifts := watch(t, dp)
	require.NoError(t, waitApplied(t, dp, drifts, first(world("a"))))
	require.NotEmpty(t, r.dump(dp))
	require.NoError(t, dp.Teardown(t.Context()))
	require.Empty(t, r.dump(dp))
	require.Zero(t, dp.Stats().PID)
	require.NoError(t, dp.Apply(t.Context(), dataplane.Batch{}))
	require.Zero(t, dp.Stats().PID, "the state is not complete")
	require.NoError(t, waitApplied(t, dp, drifts, first(world("b"))))
	require.Equal(t, sentState(world("b")).String(), r.dump(dp))

	r.set("mode", "fail")
	require.Error(t, dp.Teardown(t.Context()))
	r.set("mode", "")
	require.NoError(t, waitApplied(t, dp, drifts, dataplane.Batch{}))
	require.Equal(t, sentState(world("b")).String(), r.dump(dp), "the driver has the whole state after an error")
}

// New refuses an invalid Config.
func TestConfigIsChecked(t *testing.T) {
	_, err := felix.New(felix.Config{Dialect: 7, Timeout: -1})
	require.ErrorContains(t, err, "felix: Config.Command: required")
	require.ErrorContains(t, err, "felix: Config.Dialect: unknown dialect 7")
	require.ErrorContains(t, err, "felix: Config.Timeout, Grace and MaxBackoff: must not be negative")
	require.Equal(t, "[tiers kinds kinds-v4v6]", fmt.Sprint(dialects()))
	require.Equal(t, "dialect "+strconv.Itoa(7), felix.Dialect(7).String())
}
