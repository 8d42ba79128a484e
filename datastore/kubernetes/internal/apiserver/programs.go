// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
)

// programs returns the paths of kube-apiserver and etcd. Without WAYLEAVE_KUBERNETES_BIN, the test
// skips.
func programs(t T) (apiserver, etcd string) {
	t.Helper()
	folder := os.Getenv("WAYLEAVE_KUBERNETES_BIN")
	if folder == "" {
		t.Skip("it needs a Kubernetes API server: run 'make test-kubernetes'")
	}
	apiserver, etcd = filepath.Join(folder, "kube-apiserver"), os.Getenv("WAYLEAVE_ETCD_SERVER")
	if etcd == "" {
		etcd = filepath.Join(folder, "etcd")
	}
	for _, path := range []string{apiserver, etcd} {
		require.FileExists(t, path, "run 'make test-kubernetes', which builds it")
	}
	return apiserver, etcd
}
