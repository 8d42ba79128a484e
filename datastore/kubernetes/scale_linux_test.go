// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
	"github.com/wayleave/wayleave/policy"
)

// BenchmarkScale sets these variables for TestScaleProcess, which it runs in a process for each way
// to watch all pods.
const (
	scaleMode   = "WAYLEAVE_SCALE_MODE"
	scaleServer = "WAYLEAVE_SCALE_SERVER"
	scalePods   = "WAYLEAVE_SCALE_PODS"
)

// BenchmarkScale measures processes that watch all pods of a cluster. WAYLEAVE_SCALE_PODS is their
// number (default 10,000). Each namespace has 100 pods and a policy. The benchmark reports the heap
// after a collection, the resident memory at that time and its peak, all in MB. It also reports the
// seconds until the state is complete.
func BenchmarkScale(b *testing.B) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv(scalePods), "10000"))
	require.NoError(b, err)
	c := newCluster(b, apiserver.Config{})
	start := time.Now()
	c.fill(count)
	b.Logf("%d pods written in %s", count, time.Since(start).Round(time.Second))
	server, err := json.Marshal([]string{c.REST().Host, c.REST().BearerToken, string(c.REST().CAData)})
	require.NoError(b, err)
	for _, mode := range []string{"reflector", "informers", "shared", "source", "agent"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				child := exec.Command(os.Args[0], "-test.run", "^TestScaleProcess$", "-test.v")
				child.Env = append(os.Environ(), scaleMode+"="+mode, scaleServer+"="+string(server),
					scalePods+"="+strconv.Itoa(count))
				out, err := child.CombinedOutput()
				require.NoError(b, err, string(out))
				reportFigures(b, string(out))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// reportFigures reports the lines "figure NAME=VALUE".
func reportFigures(b *testing.B, out string) {
	for line := range strings.Lines(out) {
		figure, isFigure := strings.CutPrefix(strings.TrimSpace(line), "figure ")
		if name, text, ok := strings.Cut(figure, "="); isFigure && ok {
			value, err := strconv.ParseFloat(text, 64)
			require.NoError(b, err)
			b.ReportMetric(value, name)
		}
	}
}

// fill adds the pods, their namespaces and policies.
func (c *cluster) fill(count int) {
	c.Helper()
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for ns := w; ns < count/100; ns += 16 {
				namespace := fmt.Sprint("namespace-", ns)
				object := &corev1.Namespace{}
				object.Name, object.Labels = namespace, map[string]string{"team": fmt.Sprint("team-", ns%10)}
				_, err := c.CoreV1().Namespaces().Create(c.Context(), object, metav1.CreateOptions{})
				require.NoError(c, err)
				c.isolate(namespace, "web", "app-1")
				for i := range 100 {
					n := ns*100 + i
					name, node := fmt.Sprintf("deployment-%d-5d8f9c7b6d-%05d", i%10, n), fmt.Sprint("n", n%(count/100))
					address := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
					c.addPod(namespace, name, node, address, map[string]string{
						"app": fmt.Sprint("app-", i%10), "pod-template-hash": "5d8f9c7b6d", "version": "v1",
						"app.kubernetes.io/name": "shop", "statefulset.kubernetes.io/pod-name": fmt.Sprint("pod-", n),
					})
				}
			}
		})
	}
	writers.Wait()
}

// TestScaleProcess is one process of BenchmarkScale.
func TestScaleProcess(t *testing.T) {
	mode := os.Getenv(scaleMode)
	if mode == "" {
		return // only BenchmarkScale runs it
	}
	var server [3]string
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(scaleServer)), &server))
	user := &rest.Config{
		Host: server[0], BearerToken: server[1], TLSClientConfig: rest.TLSClientConfig{CAData: []byte(server[2])},
	}
	pods, err := strconv.Atoi(os.Getenv(scalePods))
	require.NoError(t, err)
	cfg := clients(t, user)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	debug.SetGCPercent(50) // as in an agent with little memory
	start := time.Now()
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	if mode == "informers" || mode == "shared" {
		cfg.Informers = informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0,
			informers.WithTransform(kubernetes.Transform))
		core := cfg.Informers.Core().V1()
		core.Pods().Informer() // each call creates an informer
		core.Namespaces().Informer()
		core.ServiceAccounts().Informer()
		core.Nodes().Informer()
		cfg.Informers.Discovery().V1().EndpointSlices().Informer()
		defer cfg.Informers.Shutdown()
		defer cancel()
		cfg.Informers.Start(ctx.Done())
		cfg.Informers.WaitForCacheSync(ctx.Done())
	}
	switch mode {
	case "shared", "source":
		source, err := kubernetes.New(cfg)
		require.NoError(t, err)
		parts.Go(func() { _ = source.Run(ctx, discard{}) })
		require.NoError(t, source.Barrier(ctx))
	case "reflector": // a Source on client-go's Reflector, which has the whole list of pods in memory
		listed := make(chan struct{})
		r := cache.NewReflectorWithOptions(
			cache.NewListWatchFromClient(cfg.Client.CoreV1().RESTClient(), "pods", "", fields.Everything()),
			&corev1.Pod{}, listedStore{listed}, cache.ReflectorOptions{},
		)
		parts.Go(func() { r.RunWithContext(ctx) })
		<-listed
	case "agent":
		n := newNode(&cluster{TB: t}, cfg, func(dataplane.Batch) {})
		require.NoError(t, n.driver.WaitApplied(ctx))
		require.Equal(t, pods, kindOf(n.source, "pods").Objects)
	}
	complete := time.Since(start)
	for range 3 {
		debug.FreeOSMemory()
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	fmt.Printf("\nfigure complete-s=%f\nfigure heap-MB=%f\nfigure resident-MB=%f\nfigure peak-MB=%f\n",
		complete.Seconds(), float64(heap.HeapAlloc)/1e6, statusMB(t, "VmRSS:"), statusMB(t, "VmHWM:"))
	runtime.KeepAlive(cfg)
	os.Exit(0) // without waiting until the connections end
}

// statusMB returns a line of /proc/self/status in MB.
func statusMB(t *testing.T, name string) float64 {
	data, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kB, err := strconv.ParseFloat(fields[1], 64)
			require.NoError(t, err)
			return kB * 1024 / 1e6
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// listedStore is a store of a Reflector that stores nothing, and closes a channel after the first
// list.
type listedStore struct{ listed chan struct{} }

func (listedStore) Add(any) error    { return nil }
func (listedStore) Update(any) error { return nil }
func (listedStore) Delete(any) error { return nil }
func (listedStore) Resync() error    { return nil }

// Replace is called after each list, so once here.
func (s listedStore) Replace([]any, string) error {
	close(s.listed)
	return nil
}

// Transformer makes the Reflector remove unused fields from the objects of a list.
func (listedStore) Transformer() cache.TransformFunc { return kubernetes.Transform }

// discard is a receiver that stores nothing.
type discard struct{}

func (discard) Update(context.Context, []policy.Update) error { return nil }
func (discard) InSync(context.Context) error                  { return nil }
