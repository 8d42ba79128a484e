// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/felix"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(driverEnv); folder != "" {
		if err := runDriver(folder); err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			os.Exit(3)
		}
		return
	}
	code := m.Run()
	deadline := time.Now().Add(waitTimeout)
	for leaked() != "" && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if stacks := leaked(); stacks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the goroutines of this module, and of package os/exec.
func leaked() string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")[1:] {
		if strings.Contains(stack, "dataplane/felix.") || strings.Contains(stack, "os/exec.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// rig is a Dataplane whose driver is the test binary.
type rig struct {
	t      *testing.T
	folder string
	cfg    felix.Config
}

// newRig returns a rig with a configuration that waits for statuses, and starts drivers again at
// once.
func newRig(t *testing.T) *rig {
	r := &rig{t: t, folder: t.TempDir()}
	binary, err := os.Executable()
	require.NoError(t, err)
	command := filepath.Join(r.folder, "driver")
	require.NoError(t, os.Symlink(binary, command))
	r.cfg = felix.Config{
		Command: []string{command}, Env: append(os.Environ(), driverEnv+"="+r.folder),
		Stdout: t.Output(), Stderr: t.Output(),
		Settings: map[string]string{"InterfacePrefix": "wl"}, WaitForStatus: true, MaxBackoff: 1, Timeout: waitTimeout,
		Grace: waitTimeout, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return r
}

// set writes a file that the next driver reads.
func (r *rig) set(file, value string) {
	require.NoError(r.t, os.WriteFile(filepath.Join(r.folder, file), []byte(value), 0o600))
}

func dialects() []felix.Dialect {
	return []felix.Dialect{felix.DialectTiers, felix.DialectKinds, felix.DialectKindsV4V6}
}

// dialect selects a dialect for both sides.
func (r *rig) dialect(d felix.Dialect) {
	r.cfg.Dialect = d
	r.set("dialect", d.String())
}

// open returns a Dataplane, which is closed at the end of the test.
func (r *rig) open() *felix.Dataplane {
	dp, err := felix.New(r.cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = dp.Close() })
	return dp
}

// query sends a request to the driver. The driver responds once it has read all messages.
func (r *rig) query(dp *felix.Dataplane, q request) (response, error) {
	s := dp.Stats()
	q.Sent = s.Sent
	var a response
	var conn net.Conn
	var err error
	for deadline := time.Now().Add(waitTimeout); ; {
		if conn, err = net.Dial("unix", socketOf(r.folder, s.PID)); err == nil {
			break
		}
		if now := dp.Stats(); time.Now().After(deadline) || now.PID != s.PID {
			return a, fmt.Errorf("no response of driver %d: %w", s.PID, err)
		}
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, err
	}
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, fmt.Errorf("the driver: %s", a.Error)
	}
	return a, nil
}

// dump returns the driver's file "kernel".
func (r *rig) dump(dp *felix.Dataplane) string {
	r.t.Helper()
	if dp == nil || dp.Stats().PID == 0 {
		text, _ := os.ReadFile(filepath.Join(r.folder, "kernel"))
		return string(text)
	}
	a, err := r.query(dp, request{})
	require.NoError(r.t, err)
	return a.Dump
}

// kill kills the driver, if there is one.
func kill(t *testing.T, dp *felix.Dataplane) {
	if pid := dp.Stats().PID; pid != 0 {
		p, err := os.FindProcess(pid)
		require.NoError(t, err)
		_ = p.Kill()
	}
}

// waitApplied applies a batch, and empty batches until nothing is pending. Watch must run.
func waitApplied(t *testing.T, dp dataplane.Dataplane, drifts <-chan dataplane.Drift, b dataplane.Batch) error {
	t.Helper()
	err := dp.Apply(t.Context(), b)
	for isPending(err) {
		select {
		case <-drifts:
		case <-time.After(waitTimeout):
			t.Fatalf("pending: %v", err)
		}
		err = dp.Apply(t.Context(), dataplane.Batch{})
	}
	return err
}

func isPending(err error) bool {
	objects, _ := dataplane.ApplyErrors(err)
	for _, e := range objects {
		if e.Pending {
			return true
		}
	}
	return false
}

// watch runs Watch until the test ends.
func watch(t *testing.T, dp dataplane.Watcher) <-chan dataplane.Drift {
	drifts := make(chan dataplane.Drift, 10000)
	run(t, func(ctx context.Context) error {
		return dp.Watch(ctx, func(d dataplane.Drift) { drifts <- d })
	})
	return drifts
}

// run runs a function until the test ends.
func run(t *testing.T, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = work(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func endpointKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: name}
}

// world returns a state in sync with endpoints.
func world(names ...string) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	for _, name := range names {
		s.Endpoints[endpointKey(name)] = &dataplane.Endpoint{Interface: "if-" + name}
	}
	return s
}

// batch returns the batch between two states.
func batch(from, to dptest.State) dataplane.Batch { return dptest.Transition(from, to) }

// first returns the first batch of a state.
func first(s dptest.State) dataplane.Batch { return batch(dptest.NewState(), s) }
