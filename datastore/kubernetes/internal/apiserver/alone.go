// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Etcd is either an etcd that runs without an API server, or a gRPC proxy of such an etcd. Its
// methods fail the test on errors.
type Etcd struct {
	// URL of the etcd, as in "http://127.0.0.1:2379".
	URL     string
	t       T
	process *process
}

// StartEtcd starts an etcd alone, and returns when it is ready. It ends with the test.
func StartEtcd(t T) *Etcd {
	t.Helper()
	_, program := programs(t)
	dir := t.TempDir()
	e := &Etcd{URL: "http://" + freeAddress(t), t: t}
	e.process = &process{path: program, log: filepath.Join(dir, "etcd.log")}
	e.process.args = etcdArgs(filepath.Join(dir, "etcd"), e.URL, freeAddress(t))
	e.begin()
	return e
}

// Proxy starts a gRPC proxy of the etcd, and returns when it is ready. It ends with the test.
func (e *Etcd) Proxy() *Etcd {
	e.t.Helper()
	dir, address := e.t.TempDir(), freeAddress(e.t)
	p := &Etcd{URL: "http://" + address, t: e.t}
	p.process = &process{path: e.process.path, log: filepath.Join(dir, "proxy.log")}
	p.process.args = []string{
		"grpc-proxy", "start", "--endpoints", strings.TrimPrefix(e.URL, "http://"), "--listen-addr", address,
		"--advertise-client-url", address, "--data-dir", filepath.Join(dir, "proxy"),
	}
	p.begin()
	return p
}

// PID returns the number of the process.
func (e *Etcd) PID() int { return e.process.cmd.Process.Pid }

// Restart kills the process, starts it again with its data and at the same address, and returns
// when it is ready.
func (e *Etcd) Restart() {
	e.t.Helper()
	e.process.kill()
	e.process.start(e.t)
	e.awaitHealth()
}

// begin starts the process for the first time.
func (e *Etcd) begin() {
	e.t.Helper()
	e.t.Cleanup(func() {
		e.process.kill()
		if e.t.Failed() {
			e.t.Log(e.process.tail())
		}
	})
	e.process.start(e.t)
	e.awaitHealth()
}

// awaitHealth returns when the process is healthy: for a proxy, when its etcd is, too.
func (e *Etcd) awaitHealth() {
	e.t.Helper()
	var last error
	poll := func(ctx context.Context) (bool, error) {
		last = health(ctx, e.URL)
		require.True(e.t, e.process.running(), "%s has ended", e.URL)
		return last == nil, nil
	}
	err := wait.PollUntilContextTimeout(e.t.Context(), pollInterval, waitTimeout, true, poll)
	require.NoError(e.t, err, "waited for %s: %v", e.URL, last)
}

// health returns an error if an etcd is not healthy.
func health(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return err
	}
	request.Close = true // no connection remains
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/health: %s", url, response.Status)
	}
	return nil
}
