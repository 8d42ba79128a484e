// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority returns an authority, and writes its certificate to a file.
func newAuthority(t *testing.T, file string) *authority {
	a := &authority{t: t}
	a.issue(file, "", time.Now().Add(time.Hour))
	return a
}

// issue writes a certificate, and its key if keyFile is not empty. The first certificate is that of
// the authority itself.
func (a *authority) issue(certFile, keyFile string, until time.Time) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: filepath.Base(certFile)},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until, BasicConstraintsValid: true, IsCA: a.cert == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	if a.cert == nil {
		a.key = key
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(a.t, err)
	}
	if keyFile != "" {
		secret, err := x509.MarshalECPrivateKey(key)
		require.NoError(a.t, err)
		require.NoError(a.t,
			os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	}
	require.NoError(a.t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

// secureEtcd starts an etcd that requires certificates, and creates the users root and agent.
func secureEtcd(t *testing.T, s *nodeEtcd, ca, cert, key, password string) (root *clientv3.Client, store *etcd.Store) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	authorities, err := os.ReadFile(ca)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authorities))
	with := func(user, password string) func(*clientv3.Config) {
		return func(cfg *clientv3.Config) {
			cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}
			cfg.Username, cfg.Password = user, password
		}
	}
	anonymous, _ := s.client(with("", ""))
	ctx := t.Context()
	try := func(_ any, err error) { require.NoError(t, err) }
	try(anonymous.UserAdd(ctx, "root", "master"))
	try(anonymous.UserGrantRole(ctx, "root", "root"))
	try(anonymous.UserAdd(ctx, "agent", password))
	try(anonymous.RoleAdd(ctx, "agent"))
	try(anonymous.UserGrantRole(ctx, "agent", "agent"))
	for key, what := range map[string]clientv3.PermissionType{
		"state/": clientv3.PermissionType(clientv3.PermRead), "settings/": clientv3.PermissionType(clientv3.PermRead),
		"agents/n1":     clientv3.PermissionType(clientv3.PermReadWrite),
		"endpoints/n1/": clientv3.PermissionType(clientv3.PermReadWrite),
	} {
		key = "/wayleave/default/" + key
		try(anonymous.RoleGrantPermission(ctx, "agent", key, clientv3.GetPrefixRangeEnd(key), what))
	}
	try(anonymous.AuthEnable(ctx))
	return s.client(with("root", "master"))
}

// An agent that the server refuses, or that does not accept the server's certificate, reports the
// server and the cause. It is alive and not ready, and shows its password nowhere. Once the cause
// is corrected, it is in sync without a restart.
func TestAgentOverTLSWithAPassword(t *testing.T) {
	ns, dir := nstest.New(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, foreign := newAuthority(t, file("ca.pem")), newAuthority(t, file("foreign.pem"))
	soon := time.Now().Add(time.Hour)
	ca.issue(file("server.pem"), file("server.key"), soon)
	ca.issue(file("agent.pem"), file("agent.key"), time.Now().Add(-time.Minute))
	ca.issue(file("renewed.pem"), file("renewed.key"), soon)
	foreign.issue(file("other.pem"), file("other.key"), soon)
	server := startNodeEtcd(t, ns, "https", func(cfg *embed.Config) {
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = file("server.pem"), file("server.key")
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = file("ca.pem"), true
	})
	root, store := secureEtcd(t, server, file("ca.pem"), file("server.pem"), file("server.key"), "the old one")
	require.NoError(t, store.Init(t.Context()))
	p := &policy.Profile{Name: "p"}
	_, err := store.Put(t.Context(), p, etcd.Absent)
	require.NoError(t, err)

	const password = "hush! hush!"
	require.NoError(t, os.WriteFile(file("password"), []byte(password+"\n"), 0o600))
	args := func(ca, cert string) []string {
		return []string{
			"--etcd", server.url, "--etcd-ca-file", file(ca), "--etcd-cert-file", file(cert + ".pem"),
			"--etcd-key-file", file(cert + ".key"), "--etcd-username", "agent",
			"--etcd-password-file", file("password"),
		}
	}
	agent := startAgentProcess(t, ns, args("ca.pem", "agent")...)
	others := map[string]*agentProcess{
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": startAgentProcess(t, ns,
			append(args("foreign.pem", "renewed"), "--http-address", "")...),
		"the server's error: tls: unknown certificate authority": startAgentProcess(t, ns,
			append(args("ca.pem", "other"), "--http-address", "")...),
	}
	const address = "127.0.0.1:2379"
	refused := func(a *agentProcess, want string) {
		s := a.status(want, func(s api.Status) bool { return strings.Contains(s.Store.Error, want) })
		require.Contains(t, s.Store.Error, address)
		require.False(t, s.Ready)
		require.Equal(t, []string{"etcd"}, s.Waiting)
		a.out.await(t, want)
	}
	for want, other := range others {
		refused(other, want)
	}
	refused(agent, "the server's error: tls: expired certificate")
	code, source := agent.source()
	require.Equal(t, 503, code)
	require.Contains(t, source.Detail, "expired certificate")
	code, _ = agent.get("/livez")
	require.Equal(t, 200, code, "alive")

	// With a renewed certificate, the server refuses the password.
	require.NoError(t, os.Rename(file("renewed.pem"), file("agent.pem")))
	require.NoError(t, os.Rename(file("renewed.key"), file("agent.key")))
	refused(agent, "authentication failed, invalid user ID or password")
	_, err = root.UserChangePassword(t.Context(), "agent", password)
	require.NoError(t, err)
	s := agent.status("ready", func(s api.Status) bool { return s.Ready })
	require.True(t, s.Store.Connected)
	require.Empty(t, s.Store.Error)
	await(t, "applied", func() bool {
		r, err := store.Applied(t.Context(), p.Key())
		require.NoError(t, err)
		return r.Complete()
	})
	code, source = agent.source()
	require.Equal(t, 200, code)
	require.Empty(t, source.Note)

	// The password changes in etcd, and then in the file, which is read again.
	_, err = root.UserChangePassword(t.Context(), "agent", "hush! another")
	require.NoError(t, err)
	s = agent.status("refused", func(s api.Status) bool {
		return strings.Contains(s.Store.Error, "authentication failed")
	})
	require.True(t, s.Ready, "the applied objects stay")
	require.NoError(t, os.WriteFile(file("password.new"), []byte("hush! another\n"), 0o600))
	require.NoError(t, os.Rename(file("password.new"), file("password")))
	agent.status("connected", func(s api.Status) bool { return s.Store.Connected && s.Store.Error == "" })
	for _, a := range append([]*agentProcess{agent}, others["the server's error: tls: unknown certificate authority"]) {
		require.NotContains(t, a.out.String(), "hush")
		require.NotEmpty(t, a.out.String())
	}
}
