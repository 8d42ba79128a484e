// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/wayleave/wayleave/examples/agent/internal/build"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// qps and burst limit the requests of an agent. An agent sends about thirty requests at the start
// and few later; the limit protects the server if the agent has a bug.
const qps, burst = 20, 60

// Clients are clients of one API server.
type Clients struct {
	// Server is the address of the API server, for display.
	Server string
	// Client is a typed client. Dynamic is an untyped client, for policies and the kinds of Calico:
	// it returns all fields, even those that this version does not know.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
}

// Connect returns clients of the API server. The setting Kubeconfig or InCluster determines how
// they connect. Connect returns nil if neither is set. It sends no request yet.
//
// Errors: with Kubeconfig, the file cannot be used; with InCluster, the service account of the pod
// cannot be used. The error begins with the name of the setting.
func Connect(s settings.Settings) (*Clients, error) {
	if !s.ReadsKubernetes() {
		return nil, nil
	}
	access, err := access(s)
	if err != nil {
		return nil, err
	}
	access.UserAgent = "wayleave-agent/" + build.Read().Version
	access.QPS, access.Burst = qps, burst
	access.Timeout = 0 // a timeout would end watches
	access.WarningHandler = rest.NoWarnings{}
	typed := rest.CopyConfig(access)
	typed.ContentType = runtime.ContentTypeProtobuf
	typed.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	access.ContentType = runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: check the access to the API", source(s), err)
	}
	other, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: check the access to the API", source(s), err)
	}
	return &Clients{Server: access.Host, Client: client, Dynamic: other}, nil
}

// wantKubeconfig says what to set instead of a kubeconfig file that cannot be used.
const wantKubeconfig = "give a kubeconfig file with a cluster and a user"

// source returns the name of the setting that configures the access.
func source(s settings.Settings) string {
	if s.InCluster {
		return "in-cluster"
	}
	return "kubeconfig"
}

// access returns the configuration of the clients. An incomplete file is an error. The loader of
// client-go would use the service account of the pod instead.
func access(s settings.Settings) (*rest.Config, error) {
	if s.InCluster {
		cfg, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("in-cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: " +
				"the process does not run in a pod of a cluster; set kubeconfig instead")
		}
		if err != nil {
			return nil, fmt.Errorf("in-cluster: %w: give the pod the token of its service account, or set kubeconfig "+
				"instead", err)
		}
		return cfg, nil
	}
	file, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w: %s", err, wantKubeconfig)
	}
	if err := clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w: %s", err, wantKubeconfig)
	}
	if s.KubernetesContext != "" && file.Contexts[s.KubernetesContext] == nil {
		return nil, fmt.Errorf("kubernetes-context: %s has no context %q: give one of %q", s.Kubeconfig,
			s.KubernetesContext, slices.Sorted(maps.Keys(file.Contexts)))
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(
		*file, s.KubernetesContext, &clientcmd.ConfigOverrides{}, nil,
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %s: %w: %s", s.Kubeconfig, err, wantKubeconfig)
	}
	return cfg, nil
}
