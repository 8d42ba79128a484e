// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
)

// The name of an object cannot start a new line in the log, and cannot write control characters to
// a terminal. The same holds for events and responses. The object may come from manifests or
// resources, or be a registered endpoint.
func TestObjectNamesForgeNoLogLine(t *testing.T) {
	const forged = "web\ntime=now level=INFO msg=\"all is well\"\x1b[2J\u202e"
	name, err := json.Marshal(forged)
	require.NoError(t, err)
	node, dir := shop(t)
	resources := t.TempDir()
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"resources": resources, "log-level": "DEBUG"})
	r.until(t, well)
	events := make(chan api.Event, 1000)
	go func() {
		_ = api.Stream(t.Context(), r.Client, "/v1/watch", func(e api.Event) error {
			events <- e
			return nil
		})
	}()
	next := func() api.Event {
		select {
		case e := <-events:
			return e
		case <-time.After(waitTimeout):
			t.Fatalf("no event; log:\n%s", r.log)
			return api.Event{}
		}
	}
	require.Equal(t, "watching", next().Type)
	printable := func(text string) {
		t.Helper()
		require.Negative(t, strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }), "%q", text)
	}

	object := `{"apiVersion": "KIND", "kind": "Pod", "metadata": {"namespace": "shop", "name": ` + string(name) + `},
		"spec": {"nodeName": "n", "containers": [{"name": "c"}]}, "status": {"podIPs": [{"ip": "10.0.0.7"}]}}`
	write(t, dir, "pod.yaml", strings.Replace(object, "KIND", "v1", 1))
	for file, text := range map[string]string{
		dir + "/kind.yaml": `{"apiVersion": "v1", "kind": NAME, "metadata": {"name": NAME}}`,
		dir + "/calico.yaml": `{"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy",
			"metadata": {"name": NAME}, "spec": {"selector": NAME, NAME: 1}}`,
		resources + "/policy.json": `{"kind": "Policy", "name": NAME, "selector": NAME}`,
		resources + "/field.json":  `{"kind": "Profile", "name": "p", NAME: 1}`,
	} {
		write(t, filepath.Dir(file), filepath.Base(file), strings.ReplaceAll(text, "NAME", string(name)))
	}
	for rejected := 0; rejected < 5; {
		e := next()
		if e.Type == "rejected" {
			rejected++
		}
		printable(e.Object)
		printable(e.Text)
	}
	for _, text := range []string{
		`{"namespace": "shop", "name": NAME, "interface": "way1", "addresses": ["10.0.0.8"]}`,
		`{"namespace": "shop", "name": "a", "interface": NAME, "addresses": ["10.0.0.8"]}`,
		`{"namespace": "shop", "name": "a", "interface": "way1", NAME: 1}`,
	} {
		err := r.put(t, "", strings.ReplaceAll(text, "NAME", string(name)))
		require.Error(t, err)
		printable(err.Error())
	}
	r.end(t)
	require.Contains(t, r.log.String(), "all is well", "the log has the names")
	for line := range strings.Lines(r.log.String()) {
		require.Regexp(t, `^time=\d`, line)
		printable(strings.TrimSuffix(line, "\n"))
	}
}
