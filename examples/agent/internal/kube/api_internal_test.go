// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// If several requests fail for the same reason, the reason is reported and logged once.
func TestReasonsAreDeduplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		client := fake.NewClientset()
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			address := fmt.Sprint("https://server?timeout=", requests.Add(1))
			return true, nil, &url.Error{Op: "Get", URL: address, Err: errors.New("refused")}
		})
		others := slices.DeleteFunc(kubernetes.Kinds(), func(kind string) bool {
			return !strings.Contains(kind, ".") || kind == "endpointslices.discovery.k8s.io"
		})
		var log bytes.Buffer
		a, err := New(Config{
			Clients: &Clients{Client: client, Dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())},
			Omit:    others, Node: "n", ConfigMap: "wayleave/agent", Settings: func(_, _ []settings.Layer) {},
			Rejected: func(error) {}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		time.Sleep(time.Minute) // the clock of the bubble
		synctest.Wait()
		require.Equal(t, "settings: refused; namespaces, serviceaccounts, nodes and 2 more: refused", a.Problem())
		require.Greater(t, requests.Load(), int64(20))
		require.Equal(t, 2, strings.Count(log.String(), "settings cannot be read"), "one line for each ConfigMap")
		cancel()
		require.NoError(t, <-ended)
	})
}
