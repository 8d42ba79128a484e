// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph/replay"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/smalldisk"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// register registers an endpoint with the agent.
func (r *running) register(t *testing.T, name, iface, ip string) error {
	t.Helper()
	body := fmt.Sprintf(`{"namespace":"shop","name":%q,"interface":%q,"addresses":[%q]}`, name, iface, ip)
	_, err := api.Send[api.Registered](t.Context(), r.Client, http.MethodPut, "/v1/registry", jsonText(body))
	return err
}

// has reports whether a text is in the table.
func has(text string) func(pipeline.State) bool {
	return func(s pipeline.State) bool { return well(s) && strings.Contains(s.Table().String(), text) }
}

// replayed replays a recording, and returns all batches.
func replayed(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var batches strings.Builder
	require.NoError(t,
		replay.Run(t.Context(), file, replay.Config{Out: func(_ context.Context, b dataplane.Batch) error {
			batches.WriteString(b.String())
			return nil
		}}))
	return batches.String()
}

// A full disk ends only the recording, which is reported once. Policy is still programmed, and
// registered endpoints stay. The recording up to that moment can be replayed.
func TestFullDisk(t *testing.T) {
	node, dir := shop(t)
	disk, err := smalldisk.New(64 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, disk.Close()) }()
	state := t.TempDir()
	record := filepath.Join(disk.Path(), "recording")
	more := map[string]string{"record-file": record, "endpoint-dir": filepath.Join(disk.Path(), "endpoints")}
	r := startWith(t, node, dir, state, more)
	r.until(t, well)
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	nstest.NewWorkload(t, node, "way1", "10.0.0.10")
	require.NoError(t, r.register(t, "early", "way0", "10.0.0.9"))
	status := get[api.Status](t, r, "/v1/status")
	require.Equal(t, record, status.Recording)
	require.Empty(t, status.RecordingError)
	_, body := r.http(t, "/readyz")
	require.Contains(t, body, `{"name":"recording","ok":true}`)

	require.NoError(t, disk.Fill())
	for i := range 3 { // each is larger than the free space in the file's last page
		write(t, dir, "more.yaml", strings.Repeat("# \n", 10)+allow("cart", "web", 1000+i)+manyPolicies(50, 2000+i))
		r.until(t, has(fmt.Sprint(2000+i)))
	}
	status = get[api.Status](t, r, "/v1/status")
	require.Contains(t, status.RecordingError, "recording: write "+record+": no space left on device")
	require.True(t, status.Ready)
	code, body := r.http(t, "/readyz")
	require.Equal(t, 200, code)
	require.Contains(t, body, `{"name":"recording","ok":true,"note":"has ended: calcgraph: record: recording: write `)
	require.Equal(t, 1, strings.Count(r.log.String(), "the recording has ended; the agent continues"), r.log)

	err = r.register(t, "late", "way1", "10.0.0.10")
	require.ErrorContains(t, err, "register WorkloadEndpoint/shop/late")
	require.ErrorContains(t, err, "no space left on device")
	require.ErrorContains(t, r.register(t, "early", "way0", "10.0.0.11"), "no space left on device")
	early := get[api.Registered](t, r, "/v1/registry?namespace=shop&name=early")
	require.Equal(t, "up", early.State)
	require.Equal(t, "10.0.0.9", early.Endpoint.Addresses[0].String())
	require.Nil(t, get[api.Registered](t, r, "/v1/registry?namespace=shop&name=late").Endpoint)

	require.NoError(t, disk.Free())
	require.NoError(t, r.register(t, "late", "way1", "10.0.0.10"))
	r.end(t)
	batches := replayed(t, record)
	require.Contains(t, batches, "shop/early")
	require.NotContains(t, batches, "shop/late", "an ended recording does not continue after a gap")

	r = startWith(t, node, dir, state, more)
	r.until(t, has(`"way1"`))
	require.Empty(t, get[api.Status](t, r, "/v1/status").RecordingError)
	r.end(t)
	require.Contains(t, replayed(t, record), "shop/late")
	require.Equal(t, batches, replayed(t, record+".1"), "the recording of the previous run is kept")
}

// manyPolicies returns policies for one port.
func manyPolicies(n, port int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(strings.Replace(allow("cart", "web", port), "to-web", fmt.Sprint("more-", i), 1))
	}
	return all.String()
}

// If the recording cannot be created, the agent runs without it.
func TestAgentRunsWithoutRecording(t *testing.T) {
	node, dir := shop(t)
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"record-file": "/dev/full"})
	r.until(t, well)
	require.Contains(t, get[api.Status](t, r, "/v1/status").RecordingError, "/dev/full: is not a regular file")
	require.Contains(t, r.log.String(), "the recording has ended; the agent continues")
	r.end(t)
}
