// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

const file = `
apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "SERVER"}}, {name: two, cluster: {server: "http://192.0.2.1:1"}}]
contexts: [{name: one, context: {cluster: one}}, {name: two, context: {cluster: two}}]
current-context: one
`

func write(t *testing.T, text string) settings.Settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return settings.Settings{Kubeconfig: path}
}

// The typed client requests protobuf, the dynamic one JSON, and both name the agent.
func TestConnect(t *testing.T) {
	var requests []http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Header)
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	s := write(t, strings.ReplaceAll(file, "SERVER", server.URL))
	clients, err := kube.Connect(s)
	require.NoError(t, err)
	require.Equal(t, server.URL, clients.Server)
	_, err = clients.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	_, err = clients.Dynamic.Resource(pods).List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), err)
	require.Equal(t, "application/vnd.kubernetes.protobuf,application/json", requests[0].Get("Accept"))
	require.Equal(t, "application/json", requests[1].Get("Accept"))
	for _, r := range requests {
		require.Contains(t, r.Get("User-Agent"), "wayleave-agent/")
	}

	s.KubernetesContext = "two"
	clients, err = kube.Connect(s)
	require.NoError(t, err)
	require.Equal(t, "http://192.0.2.1:1", clients.Server)
	clients, err = kube.Connect(settings.Settings{})
	require.NoError(t, err)
	require.Nil(t, clients)
}

// Errors name the setting. With an incomplete file, the service account of the pod is not used.
func TestConnectErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	other := write(t, file)
	other.KubernetesContext = "three"
	for want, s := range map[string]settings.Settings{
		"kubeconfig: open /does/not/exist: no such file or directory: give a": {Kubeconfig: "/does/not/exist"},
		"token: no such file or directory: give the pod the token":            {InCluster: true},
		`kubernetes-context: ` + other.Kubeconfig + ` has no context "three": give one of ["one" "two"]`: {
			Kubeconfig: other.Kubeconfig, KubernetesContext: "three",
		},
	} {
		_, err := kube.Connect(s)
		require.ErrorContains(t, err, want)
	}
	for _, text := range []string{"", "kind: [", "{}", strings.ReplaceAll(file, "current-context: one", "")} {
		_, err := kube.Connect(write(t, text))
		require.ErrorContains(t, err, "kubeconfig: ", text)
		require.ErrorContains(t, err, ": give a kubeconfig file with a cluster and a user", text)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := kube.Connect(settings.Settings{InCluster: true})
	require.ErrorContains(t, err, "in-cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
}
