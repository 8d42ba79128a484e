// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// parts has the configuration of a Cluster, and records the calls of its functions.
type parts struct {
	Config
	mu       sync.Mutex
	layers   []Layers
	rejected []error
	log      bytes.Buffer
}

// unreachable returns the parts of a Cluster whose store cannot be reached.
func unreachable(t *testing.T) *parts {
	t.Helper()
	raw, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://192.0.2.1:2379"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("no server")
		})},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	client, err := etcd.NewClient(etcd.Config{Etcd: raw, RequestTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	p := &parts{}
	p.Config = Config{
		Client: client, Node: "n1",
		Logger: slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelInfo})),
		Settings: func(l Layers) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.layers = append(p.layers, l)
		},
		Rejected: func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.rejected = append(p.rejected, err)
		},
	}
	return p
}

func newCluster(t *testing.T) (*Cluster, *parts) {
	t.Helper()
	p := unreachable(t)
	c, err := New(p.Config)
	require.NoError(t, err)
	return c, p
}

// lines receives the lines of a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await returns the next line with a text.
func (l lines) await(t *testing.T, text string) string {
	t.Helper()
	for timeout := time.After(20 * time.Second); ; {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			require.Fail(t, "not in the log: "+text)
		}
	}
}

// The error of the first attempt to reach the store is reported long before its timeout.
func TestUnreachableIsLoggedAtOnce(t *testing.T) {
	p := unreachable(t)
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, RequestTimeout: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	log := make(lines, 10)
	p.Client, p.Logger = client, slog.New(slog.NewTextHandler(log, nil))
	c, err := New(p.Config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.watchSettings(ctx)
	}()
	line := log.await(t, settingsProblem)
	require.Contains(t, line, "127.0.0.1:1: connect: ")
	require.Contains(t, c.State().Error, "127.0.0.1:1: connect: ", "the error is also in the status")
	cancel()
	<-ended
}

func TestNew(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"cluster: Config.Settings, Rejected and Logger: required": func(c *Config) { c.Logger = nil },
		"SourceConfig.Client: required":                           func(c *Config) { c.Client = nil },
		"Node: want 1 to 265 letters":                             func(c *Config) { c.Node = "a/b" },
	} {
		p := unreachable(t)
		change(&p.Config)
		_, err := New(p.Config)
		require.ErrorContains(t, err, want)
	}
}

// If the store does not answer, Run continues. State has the error, the log has it once, and no
// source sends anything.
func TestUnreachable(t *testing.T) {
	p, log := unreachable(t), make(lines, 10)
	p.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(&p.log, log), nil))
	c, err := New(p.Config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }()
	go func() { ended <- c.Source().Run(ctx, nil) }() // a receiver would be called
	log.await(t, settingsProblem)
	s := c.State()
	require.False(t, s.Connected)
	require.Contains(t, s.Error, "etcd: read settings: ")
	require.Zero(t, s.Delivered+s.Applied)
	require.Equal(t, etcd.SourceStats{}.Lists, c.Stats().Lists, "no objects are read before the settings")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Empty(t, p.layers)
	require.Equal(t, 1, strings.Count(p.log.String(), settingsProblem), p.log.String())
}

func TestProblemIsLoggedOnce(t *testing.T) {
	c, p := newCluster(t)
	c.solved(objectsProblem)
	require.Empty(t, p.log.String(), "there was no problem")
	require.True(t, c.logProblem(objectsProblem, errors.New("first")))
	require.False(t, c.logProblem(objectsProblem, errors.New("first")))
	require.True(t, c.logProblem(reportsProblem, errors.New("first")), "another kind of problem")
	require.True(t, c.logProblem(objectsProblem, errors.New("second")))
	require.Equal(t, 3, strings.Count(p.log.String(), "level=WARN"))
	c.solved(objectsProblem)
	c.solved(objectsProblem)
	require.Equal(t, 1, strings.Count(p.log.String(), "can be read again"))
	require.True(t, c.logProblem(objectsProblem, errors.New("second")), "another error")
}

// If some settings cannot be read, they are reported as a problem, and the valid ones are used. A
// store that does not answer is not such a problem.
func TestProblemsOfSettings(t *testing.T) {
	c, p := newCluster(t)
	now := etcd.Settings{Global: json.RawMessage(`{"apply-burst":7}`), Node: json.RawMessage(`{"apply-burst":8}`)}
	c.reportProblem(now, errors.New("away"))
	require.Empty(t, p.layers)
	newer := &etcd.ValueError{Key: "settings/node/n1", Err: etcd.ErrNewer}
	c.reportProblem(now, newer)
	c.reportProblem(now, newer)
	require.Len(t, p.layers, 1, "once")
	require.Len(t, p.rejected, 1)
	require.Equal(t, map[string]string{"apply-burst": "7"}, p.layers[0].Global[0].Values)
	require.Equal(t, map[string]string{"apply-burst": "8"}, p.layers[0].Node[0].Values)
	require.Equal(t, "etcd settings/node/n1", p.layers[0].Node[0].Source)
	require.True(t, p.layers[0].Node[0].Datastore)
	require.ErrorIs(t, p.layers[0].Global[1].Problems[0], etcd.ErrNewer)
	c.reportProblem(now, nil)
	require.Len(t, p.layers, 2)
	require.Len(t, p.layers[1].Global, 1)
	c.reportProblem(etcd.Settings{}, newer)
	require.Empty(t, p.layers[2].Node)
	require.Len(t, p.layers[2].Global, 1)
}

// The source of a new pipeline does not inherit the delivered revision of the previous source.
func TestDeliveredIsReset(t *testing.T) {
	c, _ := newCluster(t)
	close(c.settingsRead)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.setDelivered(7, &etcd.History{})
	require.Equal(t, int64(7), c.State().Delivered)
	require.ErrorIs(t, c.Source().Run(ctx, nil), context.Canceled)
	require.Zero(t, c.State().Delivered)
}

// After a change of the history, no revision is applied until a revision of the new history is.
func TestNewHistoryResetsApplied(t *testing.T) {
	c, _ := newCluster(t)
	first, second := &etcd.History{}, &etcd.History{}
	c.setDelivered(10, first)
	c.reached(10, first)
	c.setDelivered(12, first)
	require.Equal(t, int64(10), c.State().Applied)
	c.setDelivered(12, second)
	require.Zero(t, c.State().Applied)
	require.Equal(t, int64(12), c.State().Delivered)
}

// A revision of the old history that is applied during the change is not an applied revision of the
// new history.
func TestHistoryChangesDuringApply(t *testing.T) {
	c, _ := newCluster(t)
	first, second := &etcd.History{}, &etcd.History{}
	c.setDelivered(10, first)
	c.setDelivered(15, second)
	c.reached(10, first)
	require.Zero(t, c.State().Applied)
	c.reached(15, second)
	require.Equal(t, int64(15), c.State().Applied)
	c.setDelivered(17, second)
	c.reached(15, second)
	require.Equal(t, int64(15), c.State().Applied, "a later revision is not applied yet")
}

func TestFaults(t *testing.T) {
	allow := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "allow"}
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	db := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "db"}
	node := policy.Key{Kind: policy.KindNode, Name: "n1"}
	at := func(key policy.Key) error {
		return &dataplane.ApplyError{Backend: "nft", Op: "program", Object: key, Err: errors.New("no")}
	}
	failed := func(err error) map[policy.Key]dataplane.EndpointStatus {
		return map[policy.Key]dataplane.EndpointStatus{
			web: {State: dataplane.EndpointFailed, Err: err}, db: {State: dataplane.EndpointUp},
		}
	}
	for _, row := range []struct {
		name   string
		status dataplane.Status
		want   []policy.Key
	}{
		{"none", dataplane.Status{Endpoints: failed(nil)}, nil},
		{
			"policy, and endpoint that uses it",
			dataplane.Status{LastError: at(allow), Endpoints: failed(at(allow))},
			[]policy.Key{allow, web},
		},
		{
			"no fault of an endpoint that is down",
			dataplane.Status{Endpoints: map[policy.Key]dataplane.EndpointStatus{
				web: {State: dataplane.EndpointDown, Err: at(web)},
			}},
			nil,
		},
		{"of two", dataplane.Status{LastError: errors.Join(at(allow), at(web))}, []policy.Key{allow, web}},
		{"of the whole", dataplane.Status{LastError: at(policy.Key{})}, []policy.Key{node}},
		{
			"object, and failure without an object",
			dataplane.Status{LastError: errors.Join(at(allow), errors.New("refused"))},
			[]policy.Key{allow, node},
		},
	} {
		found := faults(row.status, "n1")
		require.Len(t, found, len(row.want), row.name)
		for _, key := range row.want {
			require.NotEmpty(t, found[key], row.name)
		}
	}
}
