// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

// finisher is a Mirror that leaves deletions to Finish after each batch, for a second.
type finisher struct {
	*dptest.Mirror
	after time.Duration // time until Finish need not wait; zero is a second
	mu    sync.Mutex
	calls []string
	ready chan struct{}
	rest  chan struct{} // the value of ready after Finish
	err   error         // of Finish
	fails error         // of ApplyVisible
}

func (f *finisher) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

// fail sets the error of ApplyVisible.
func (f *finisher) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
}

func (f *finisher) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *finisher) Apply(ctx context.Context, b dataplane.Batch) error {
	f.call("apply")
	return f.Mirror.Apply(ctx, b)
}

func (f *finisher) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	f.call("apply visible")
	if f.ready == nil {
		ready := make(chan struct{})
		time.AfterFunc(cmp.Or(f.after, time.Second), func() { close(ready) })
		f.ready = ready
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.fails, f.Mirror.Apply(ctx, b))
}

func (f *finisher) Unfinished() <-chan struct{} { return f.ready }

func (f *finisher) Finish(context.Context) error {
	f.call("finish")
	f.ready, f.rest = f.rest, nil
	return f.err
}

func (f *finisher) Resync(ctx context.Context) error {
	f.call("resync")
	return f.Mirror.Resync(ctx)
}

// TestFinish: unfinished deletions of a dataplane delay no batch. Finish is called once it need not
// wait, and again if it leaves more. A Resync follows if it fails.
func TestFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &finisher{Mirror: dptest.NewMirror()}
		driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{f}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		go func() { _ = driver.Run(ctx) }()
		send := func() {
			require.NoError(t, driver.Send(ctx, dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}))
			synctest.Wait()
		}
		send()
		send()
		require.Equal(t, []string{"apply visible", "apply visible"}, f.made())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"apply visible", "apply visible", "finish"}, f.made())

		rest := make(chan struct{})
		f.rest = rest
		send()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"apply visible", "finish"}, f.made()[3:])
		close(rest)
		synctest.Wait()
		require.Equal(t, []string{"apply visible", "finish", "finish"}, f.made()[3:])

		f.err = errBoom
		send()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"apply visible", "finish", "resync"}, f.made()[6:])
		stop()
		synctest.Wait()
	})
}

// TestFinishInAnyOrder: a dataplane that can finish does not wait for one before it that cannot
// yet.
func TestFinishInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &finisher{Mirror: dptest.NewMirror(), after: time.Hour}
		early := &finisher{Mirror: dptest.NewMirror()}
		driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{late, early}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		go func() { _ = driver.Run(ctx) }()
		require.NoError(t, driver.Send(ctx, dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		earlyCalls, lateCalls := early.made(), late.made()
		stop()
		require.Contains(t, earlyCalls, "finish")
		require.NotContains(t, lateCalls, "finish")
		synctest.Wait()
	})
}

// TestFinishWaitsForWithheldRoutes: a dataplane does not finish while the driver withholds InSync
// or a route from a later one, whichever dataplane has the fault. The later dataplane may still
// have the old route (S173). A removal of an endpoint does not make a waiting dataplane finish,
// either.
func TestFinishWaitsForWithheldRoutes(t *testing.T) {
	for _, withheld := range []string{"InSync", "route"} {
		for _, faulty := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, dataplane %d is at fault", withheld, faulty), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testFinishWaits(t, withheld, faulty) })
			})
		}
	}
}

func testFinishWaits(t *testing.T, withheld string, faulty int) {
	all := []*finisher{{Mirror: dptest.NewMirror()}, {Mirror: dptest.NewMirror()}}
	f := all[1]
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{all[0], f, dptest.NewMirror()},
		MinBackoff: time.Minute, MaxBackoff: time.Minute,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	defer synctest.Wait()
	defer stop()
	go func() { _ = driver.Run(ctx) }()
	at := dptest.NewState()
	send := func(to dptest.State) {
		require.NoError(t, driver.Send(ctx, dptest.Transition(at, to)))
		at = to.Clone()
		time.Sleep(5 * time.Second)
		synctest.Wait()
	}
	finished := func() int { return strings.Count(strings.Join(f.made(), ","), "finish") }

	s := world("a")
	want := 0
	if withheld == "route" {
		send(s)
		want = 1
	}
	all[faulty].fail(errBoom)
	dst := netip.MustParsePrefix("10.0.0.0/26")
	s.Routes[dst] = &dataplane.Route{Dst: dst, Type: dataplane.RouteBlackhole, Node: "n"}
	send(s)
	require.Equal(t, want, finished())
	delete(s.Endpoints, endpointKey("a"))
	send(s)
	require.Equal(t, want, finished())
	require.NotContains(t, f.made(), "apply")

	all[faulty].fail(nil)
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	require.Equal(t, want+1, finished())
}
