// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

func (r *running) put(t *testing.T, query, body string) error {
	_, err := api.Send[api.Registered](t.Context(), r.Client, http.MethodPut, "/v1/registry?"+query, jsonText(body))
	return err
}

// putText is like put, but sends the text as it is, even if it is not valid JSON.
func (r *running) putText(t *testing.T, query, text string) error {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(r.state, "agent.sock"))
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://agent/v1/registry?"+query,
		strings.NewReader(text))
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	require.Equal(t, http.StatusUnprocessableEntity, response.StatusCode)
	var failure api.Failure
	require.NoError(t, json.NewDecoder(response.Body).Decode(&failure))
	return errors.New(failure.Error)
}

func (r *running) forget(t *testing.T, query string) (api.Registered, error) {
	return api.Send[api.Registered](t.Context(), r.Client, http.MethodDelete, "/v1/registry?namespace=shop&"+query, nil)
}

// late is a source that is in sync once its channel is closed.
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
	return startWaiting(t, node, dir, state, source, change...), source
}

// startWaiting runs an agent and waits until only the given source is not in sync.
func startWaiting(
	t *testing.T, node *netns.NS, dir, state string, source datastore.Source, change ...func(*daemon.Config),
) *running {
	t.Helper()
	r := start(t, node, dir, state, append(change, func(cfg *daemon.Config) {
		cfg.Sources = func(settings.Settings) ([]datastore.NamedSource, error) {
			return []datastore.NamedSource{{Name: "late", Source: source}}, nil
		}
	})...)
	// It polls: no event reports that all other sources are in sync.
	for deadline := time.Now().Add(waitTimeout); ; runtime.Gosched() {
		status, err := api.Get[api.Status](t.Context(), r.Client, "/v1/status")
		if err == nil && slices.Equal(status.Waiting, []string{"late"}) {
			return r
		}
		require.False(t, time.Now().After(deadline), r.log)
	}
}

// A request to unregister returns once the endpoint is removed from the kernel. Until then, a
// registration with its address does not succeed.
func TestUnregister(t *testing.T) {
	node, dir, state := nstest.New(t), t.TempDir(), t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, well)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.9")
	one := `{"namespace":"shop","name":"one","interface":"way0","mac":"02:00:00:00:00:01","addresses":["10.0.0.9"]}`
	two := `{"namespace":"shop","name":"two","interface":"way1","mac":"02:00:00:00:00:02",` +
		`"addresses":["::ffff:10.0.0.9"]}`
	require.NoError(t, r.put(t, "timeout=20s", one))
	require.ErrorContains(t, r.put(t, "timeout=20s", two), "10.0.0.9 belongs to endpoint shop/one, which is registered")
	require.ErrorContains(t, r.put(t, "timeout=soon", one), "timeout")
	require.ErrorContains(
		t, r.put(t, "", `{"namespace":"shop","name":"new","interface":"way2","adminstate":"Down","admin":"Down"}`),
		"admin: unknown field",
	)
	require.ErrorContains(t,
		r.put(t, "", `{"namespace":"shop","name":"away","node":"other","interface":"way2","addresses":["10.0.0.7"]}`),
		"of node other, and this is n")
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=away").Endpoint, "it is not registered")
	_, err := r.forget(t, "name=one&timeout=soon")
	require.ErrorContains(t, err, "timeout")

	// An endpoint with another MAC address is another endpoint.
	left, err := r.forget(t, "name=one&mac=02:00:00:00:00:03")
	require.NoError(t, err)
	require.Equal(t, "way0", left.Endpoint.Interface)
	require.Equal(t, "up", left.State)

	r.end(t)
	r, source := startLate(t, node, dir, state)
	for range 2 { // a repeated request waits, too
		_, err = r.forget(t, "name=one&mac=02:00:00:00:00:01&timeout=10ms")
		require.ErrorContains(t, err,
			"it may still be in the kernel; not read completely: late: context deadline exceeded")
	}
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=one").Endpoint)
	require.ErrorContains(t, r.put(t, "timeout=10ms", two), "not read completely: late: context deadline exceeded")
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=two").Endpoint, "it is not registered")

	close(source)
	require.NoError(t, r.put(t, "timeout=20s", two))
	_, err = r.forget(t, "name=one")
	require.NoError(t, err)
	table := get[api.Ruleset](t, r, "/v1/ruleset").Table
	require.NotContains(t, table, `"way0"`)
	require.Contains(t, table, `"way1"`)
	r.end(t)
}

// Without endpoint-dir, no endpoint is registered, and a removal is not an error.
func TestUnregisterWithoutRegistry(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir(), func(cfg *daemon.Config) { cfg.Below[0].Values["endpoint-dir"] = "" })
	r.until(t, well)
	require.ErrorContains(t, r.put(t, "", `{"namespace":"shop","name":"new","interface":"way0"}`),
		"the setting endpoint-dir is empty")
	_, err := r.forget(t, "name=new")
	require.NoError(t, err)
	r.end(t)
}

// An endpoint that another source has stays in the kernel, and the request does not wait.
func TestUnregisterEndpointOfAnotherSource(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	e := get[[]api.Endpoint](t, r, "/v1/endpoints")[1]
	require.NoError(t,
		r.put(t, "", `{"namespace":"shop","name":"web","interface":"`+e.Interface+`","addresses":["10.0.0.1"]}`))
	_, err := r.forget(t, "name=web")
	require.NoError(t, err)
	require.Contains(t, get[api.Ruleset](t, r, "/v1/ruleset").Table, e.Interface)
	r.end(t)
}

// Several addresses move from endpoint to endpoint at once. Each endpoint is up when its
// registration returns, and removed from the kernel when its removal returns.
func TestAddressesMoveBetweenEndpoints(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	before := get[api.Ruleset](t, r, "/v1/ruleset").Table
	turns := func(lane int) error {
		for turn := range 10 {
			name := fmt.Sprintf("e%d-%d", lane, turn)
			body := fmt.Sprintf(`{"namespace":"shop","name":%q,"interface":"way%d","addresses":["10.0.0.%d"]}`, name,
				lane, lane+1)
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

// A registration that policy.Decode does not accept is refused, and so is the interface of another
// endpoint, registered or in a manifest.
func TestRegisterRefuses(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	one := `{"namespace":".half-x","name":"one","interface":"way0","addresses":["10.0.0.9"]}`
	require.NoError(t, r.put(t, "", one))
	taken := convert.InterfaceName("shop", "web")
	for body, want := range map[string]string{
		`{"namespace":"shop","name":"a","name":"b","interface":"way1","addresses":["10.0.0.8"]}`: "name: given twice",
		`{"namespace":"shop","Name":"a","name":"b","interface":"way1"}`: `Name: unknown field: ` +
			`want "name"`,
		`{"Kind":"Profile","namespace":"shop","name":"a","interface":"way1"}`: `Kind: unknown field: ` +
			`want "kind"`,
		`{"namespace":"shop","name":"a","interface":"way1","labels":{"a":"1","a":"2"}}`: "labels.a: given twice",
		`{"namespace":"shop","name":"a","interface":"way1","addresses":["10.0.0.8"]} {}`: "invalid character '{' " +
			"after top-level value",
		`{"namespace":"shop","name":"a","interface":"way1","addresses":["10.0.0.8"]}x`: "invalid character 'x' " +
			"after top-level value",
		`{"namespace":"shop","name":"a","interface":"way1","addresses":null}`: "addresses: want a list, not null",
		`{"kind":"Profile","name":"a"}`:                                       "Profile/a is not a workload endpoint",
		`[]`:                                                                  "want an object, not a list",
		``:                                                                    "unexpected end of JSON input",
		`{}`:                                                                  "name: required",
		`{"namespace":"shop","name":"two","interface":"way0","addresses":["10.0.0.8"]}`: `interface "way0" ` +
			`belongs to endpoint WorkloadEndpoint/.half-x/one: remove that endpoint first`,
		`{"namespace":"x","name":"y","interface":"` + taken + `","addresses":["10.0.0.8"]}`: "belongs to endpoint " +
			"WorkloadEndpoint/shop/web: remove that endpoint first",
	} {
		require.ErrorContains(t, r.putText(t, "timeout=5s", body), want, body)
	}
	for _, name := range []string{"a", "b", "two"} {
		require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name="+name).Endpoint, "not registered")
	}
	for _, timeout := range []string{"-1s", "0s"} {
		require.ErrorContains(t, r.put(t, "timeout="+timeout, one), "timeout: want more than 0s, not "+timeout)
	}
	require.NoError(t, r.put(t, "", `{"kind":"WorkloadEndpoint",`+one[1:]),
		"the kind may be given, and an endpoint registered again")
	r.end(t)

	// A name that looks like a file that is being written is kept.
	again := start(t, node, dir, r.state)
	again.until(t, well)
	require.NotNil(t, get[api.Registered](t, again, "/v1/registry?namespace=.half-x&name=one").Endpoint)
	again.end(t)
}
