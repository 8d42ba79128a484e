// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func (r *running) put(t *testing.T, query, body string) error {
	_, err := api.Send[api.Registered](t.Context(), r.Client, http.MethodPut, "/v1/registry?"+query, jsonText(body))
	return err
}

func (r *running) forget(t *testing.T, query string) (api.Registered, error) {
	return api.Send[api.Registered](t.Context(), r.Client, http.MethodDelete, "/v1/registry?namespace=shop&"+query, nil)
}

// late is a source that is in sync when it is told to be.
type late chan struct{}

func (l late) Run(ctx context.Context, r datastore.Receiver) error {
	select {
	case <-l:
		if err := r.InSync(ctx); err != nil {
			return err
		}
		<-ctx.Done()
	case <-ctx.Done():
	}
	return ctx.Err()
}

// startLate runs an agent that programs nothing before the source that it returns is closed.
func startLate(t *testing.T, node *netns.NS, dir, state string, change ...func(*daemon.Config)) (*running, late) {
	t.Helper()
	source := make(late)
	r := start(t, node, dir, state, append(change, func(cfg *daemon.Config) {
		cfg.Sources = func(settings.Settings) ([]pipeline.NamedSource, error) {
			return []pipeline.NamedSource{{Name: "late", Source: source}}, nil
		}
	})...)
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		status, err := api.Get[api.Status](t.Context(), r.Client, "/v1/status")
		if err == nil && slices.Equal(status.Waiting, []string{"late"}) {
			return r, source
		}
		require.False(t, time.Now().After(deadline), r.log)
	}
}

// An endpoint is forgotten when it is out of the kernel, and not before; nobody else has its address until then.
func TestUnregister(t *testing.T) {
	node, dir, state := nstest.New(t), t.TempDir(), t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, well)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.9")
	one := `{"namespace":"shop","name":"one","interface":"way0","mac":"02:00:00:00:00:01","addresses":["10.0.0.9"]}`
	two := `{"namespace":"shop","name":"two","interface":"way1","mac":"02:00:00:00:00:02","addresses":["::ffff:10.0.0.9"]}`
	require.NoError(t, r.put(t, "timeout=20s", one))
	require.ErrorContains(t, r.put(t, "", two), "10.0.0.9 is the address of shop/one, which is registered")
	require.ErrorContains(t, r.put(t, "timeout=soon", one), "timeout")
	require.ErrorContains(t, r.put(t, "", `{"namespace":"shop","name":"new","interface":"way2","adminstate":"Down","admin":"Down"}`), `"admin"`)
	require.ErrorContains(t, r.put(t, "", `{"namespace":"shop","name":"away","node":"other","interface":"way2","addresses":["10.0.0.7"]}`), "of node other, and this is n")
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=away").Endpoint, "nothing is kept of it")
	_, err := r.forget(t, "name=one&timeout=soon")
	require.ErrorContains(t, err, "timeout")

	// One with another MAC address is another's.
	left, err := r.forget(t, "name=one&mac=02:00:00:00:00:03")
	require.NoError(t, err)
	require.Equal(t, "way0", left.Endpoint.Interface)
	require.Equal(t, "up", left.State)

	r.end(t)
	r, source := startLate(t, node, dir, state)
	for range 2 { // whoever asks once more waits, too
		_, err = r.forget(t, "name=one&mac=02:00:00:00:00:01&timeout=10ms")
		require.ErrorContains(t, err, "shop/one is not registered any more, and still in the kernel: context deadline exceeded")
	}
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=one").Endpoint)
	require.ErrorContains(t, r.put(t, "timeout=10ms", two), "shop/two is registered and not programmed yet")

	close(source)
	require.NoError(t, r.put(t, "timeout=20s", two))
	_, err = r.forget(t, "name=one")
	require.NoError(t, err)
	table := get[api.Ruleset](t, r, "/v1/ruleset").Table
	require.NotContains(t, table, `"way0"`)
	require.Contains(t, table, `"way1"`)
	r.end(t)
}

// Where nothing can be registered nothing is, and removing it is no error.
func TestUnregisterWithoutRegistry(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir(), func(cfg *daemon.Config) { cfg.Below[0].Values["endpoint-dir"] = "" })
	r.until(t, well)
	require.ErrorContains(t, r.put(t, "", `{"namespace":"shop","name":"new","interface":"way0"}`), "the setting endpoint-dir is empty")
	_, err := r.forget(t, "name=new")
	require.NoError(t, err)
	r.end(t)
}

// What another source has too stays, and nobody waits for it to go.
func TestUnregisterWhatIsThereAnyway(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	e := get[[]api.Endpoint](t, r, "/v1/endpoints")[1]
	require.NoError(t, r.put(t, "", `{"namespace":"shop","name":"web","interface":"`+e.Interface+`","addresses":["10.0.0.1"]}`))
	_, err := r.forget(t, "name=web")
	require.NoError(t, err)
	require.Contains(t, get[api.Ruleset](t, r, "/v1/ruleset").Table, e.Interface)
	r.end(t)
}

// Addresses go from one endpoint to the next, several at once: each is up when it is registered, and gone when it is forgotten.
func TestRegisterInTurns(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	before := get[api.Ruleset](t, r, "/v1/ruleset").Table
	turns := func(lane int) error {
		for turn := range 10 {
			name := fmt.Sprintf("e%d-%d", lane, turn)
			body := fmt.Sprintf(`{"namespace":"shop","name":%q,"interface":"way%d","addresses":["10.0.0.%d"]}`, name, lane, lane+1)
			if err := r.put(t, "timeout=20s", body); err != nil {
				return err
			}
			if table := nft(t, node, "-s", "list", "ruleset"); !strings.Contains(table, fmt.Sprintf(`"way%d"`, lane)) {
				return fmt.Errorf("%s is not up:\n%s", name, table)
			}
			if _, err := r.forget(t, "timeout=20s&name="+name); err != nil {
				return err
			}
			if table := nft(t, node, "-s", "list", "ruleset"); strings.Contains(table, fmt.Sprintf(`"way%d"`, lane)) {
				return fmt.Errorf("%s is not gone:\n%s", name, table)
			}
		}
		return nil
	}
	const lanes = 4
	done := make(chan error, lanes)
	for lane := range lanes {
		nstest.NewWorkload(t, node, fmt.Sprintf("way%d", lane), fmt.Sprintf("10.0.0.%d", lane+1))
		go func() { done <- turns(lane) }()
	}
	for range lanes {
		require.NoError(t, <-done, r.log)
	}
	require.Equal(t, before, get[api.Ruleset](t, r, "/v1/ruleset").Table)
	r.end(t)
}
