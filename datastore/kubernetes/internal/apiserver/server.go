// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	// waitTimeout is how long a program may take to be ready.
	waitTimeout = 2 * time.Minute
	// pollInterval is the time between two checks of a condition.
	pollInterval = 50 * time.Millisecond
	// adminToken authenticates the administrator.
	adminToken = "admin"
)

// Config configures a Server. The zero value is a server on which every user may do everything.
type Config struct {
	// RBAC gives users, other than the administrator, only the rights that Roles and ClusterRoles
	// give them.
	RBAC bool
	// Flags are further flags of kube-apiserver, as in "--feature-gates=WatchList=false".
	Flags []string
}

// Server is an API server with an etcd. Its methods fail the test on errors.
type Server struct {
	t         T
	api, etcd *process
	etcdURL   string
	data      string // folder of etcd's data
	config    *rest.Config
}

// Start starts etcd and an API server, and returns when the API server is ready. Both end with the
// test. The test skips if WAYLEAVE_KUBERNETES_BIN is not set.
func Start(t T, cfg Config) *Server {
	t.Helper()
	apiserver, etcd := programs(t)
	dir := t.TempDir()
	s := &Server{t: t, etcdURL: "http://" + freeAddress(t), data: filepath.Join(dir, "etcd")}
	s.etcd = &process{path: etcd, log: filepath.Join(dir, "etcd.log")}
	s.etcd.args = etcdArgs(s.data, s.etcdURL, freeAddress(t))
	address := freeAddress(t)
	s.api = &process{path: apiserver, log: filepath.Join(dir, "kube-apiserver.log")}
	s.api.args = append(apiArgs(t, dir, address, s.etcdURL, cfg.RBAC), cfg.Flags...)
	t.Cleanup(func() {
		s.api.kill()
		s.etcd.kill()
		if t.Failed() {
			t.Log(s.etcd.tail())
			t.Log(s.api.tail())
		}
	})
	s.etcd.start(t)
	s.api.start(t)
	certificate := filepath.Join(dir, "apiserver.crt")
	s.await("a certificate", func(context.Context) error {
		_, err := tls.LoadX509KeyPair(certificate, filepath.Join(dir, "apiserver.key"))
		return err
	})
	ca, err := os.ReadFile(certificate)
	require.NoError(t, err)
	s.config = &rest.Config{
		Host: "https://" + address, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		QPS: -1, // no limit
	}
	s.awaitReady()
	return s
}

// etcdArgs returns the arguments of an etcd.
func etcdArgs(data, url, peer string) []string {
	peer = "http://" + peer
	return []string{
		"--data-dir", data, "--name", "only", "--initial-cluster", "only=" + peer,
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--heartbeat-interval", "20", "--election-timeout", "200", // it is ready sooner
		"--logger", "zap", "--log-level", "warn", "--log-outputs", "stderr",
	}
}

// apiArgs returns the arguments of an API server, and writes the files that they name.
func apiArgs(t T, dir, address, etcdURL string, rbac bool) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	keyFile, tokens := filepath.Join(dir, "account.key"), filepath.Join(dir, "tokens.csv")
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	require.NoError(t, os.WriteFile(keyFile, text, 0o600))
	require.NoError(t, os.WriteFile(tokens, []byte(adminToken+",admin,admin,system:masters\n"), 0o600))
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	mode := "AlwaysAllow"
	if rbac {
		mode = "RBAC"
	}
	return []string{
		"--bind-address=" + host, "--secure-port=" + port, "--cert-dir=" + dir,
		// Without it, the machine needs a default route. It is only written to the Service of the
		// API, which may have no address of loopback.
		"--advertise-address=192.0.2.1", "--service-cluster-ip-range=10.96.0.0/16",
		"--etcd-servers=" + etcdURL, "--etcd-compaction-interval=0", // see Compact
		"--authorization-mode=" + mode, "--token-auth-file=" + tokens,
		// It requires of a Pod that its ServiceAccount exists, which a controller makes.
		"--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://" + address,
		"--service-account-key-file=" + keyFile, "--service-account-signing-key-file=" + keyFile,
	}
}

// REST returns the configuration of a client that acts as the administrator. The configuration
// stays valid when the API server or etcd starts again.
func (s *Server) REST() *rest.Config { return rest.CopyConfig(s.config) }

// RESTFor returns the configuration of a client that acts as a user, by impersonation. Any name is
// possible: the user need not exist before. The user has the group system:authenticated.
func (s *Server) RESTFor(user string) *rest.Config {
	cfg := s.REST()
	cfg.Impersonate.UserName = user
	return cfg
}

// PIDs returns the process ids of the API server and etcd. After Restart, the API server has
// another one.
func (s *Server) PIDs() (apiserver, etcd int) { return s.api.cmd.Process.Pid, s.etcd.cmd.Process.Pid }

// Kill ends the API server with SIGKILL. etcd continues.
func (s *Server) Kill() { s.api.kill() }

// Restart starts the API server again, at the same address, and returns when it is ready. If the
// API server still runs, Restart kills it first. etcd must run.
func (s *Server) Restart() {
	s.t.Helper()
	s.api.kill()
	s.api.start(s.t)
	s.awaitReady()
}

// awaitReady returns when the API server is ready and reads from etcd. It checks both, because the
// API server reports that it is ready for a while after etcd has ended.
func (s *Server) awaitReady() {
	s.t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	require.NoError(s.t, err)
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system"} {
		s.await(path, func(ctx context.Context) error {
			return client.RESTClient().Get().AbsPath(path).Do(ctx).Error()
		})
	}
}

// await calls check until it returns no error. It fails the test after the time waitTimeout, and at
// once if the API server or etcd has ended.
func (s *Server) await(what string, check func(context.Context) error) {
	s.t.Helper()
	var last error
	poll := func(ctx context.Context) (bool, error) {
		last = check(ctx)
		require.True(s.t, s.api.running(), "kube-apiserver has ended; waited for %s", what)
		require.True(s.t, s.etcd.running(), "etcd has ended; waited for %s", what)
		return last == nil, nil
	}
	err := wait.PollUntilContextTimeout(s.t.Context(), pollInterval, waitTimeout, true, poll)
	require.NoError(s.t, err, "waited for %s: %v", what, last)
}
