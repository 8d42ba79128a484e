// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// authority issues certificates as files.
type authority struct {
	dir  string
	host string // name of its servers
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t testing.TB) *authority {
	a := &authority{dir: t.TempDir(), host: loopbackAddress()}
	a.issue(t, "ca")
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes <name>.crt and <name>.key. The first call issues the authority's own certificate.
func (a *authority) issue(t testing.TB, name string) {
	a.issueUntil(t, name, time.Now().Add(time.Hour))
}

func (a *authority) issueUntil(t testing.TB, name string, until time.Time) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name},
		NotBefore: until.Add(-2 * time.Hour), NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.ParseIP(a.host)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
		a.key = key
	}
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	require.NoError(t,
		os.WriteFile(a.file(name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t,
		os.WriteFile(a.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
}

// protect makes a server require certificates of the authority, and use one.
func (a *authority) protect(t testing.TB) func(*embed.Config) {
	return func(cfg *embed.Config) {
		u := url.URL{Scheme: "https", Host: freePortOf(t, a.host)}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{u}, []url.URL{u}
		cfg.ClientTLSInfo = transport.TLSInfo{
			CertFile: a.file("server.crt"), KeyFile: a.file("server.key"), TrustedCAFile: a.file("ca.crt"),
			ClientCertAuth: true,
		}
	}
}

func TestTLSWithClientCertificates(t *testing.T) {
	ca, foreign := newAuthority(t), newAuthority(t)
	ca.issue(t, "server")
	ca.issue(t, "agent")
	foreign.issue(t, "agent")
	srv := newServer(t, ca.protect(t))
	client := func(ca, agent *authority) *etcd.Client {
		cfg := etcd.Config{
			Endpoints: []string{srv.url}, Cluster: "test", RequestTimeout: 2 * time.Second,
			TLS: etcd.TLS{CAFile: ca.file("ca.crt")},
		}
		if agent != nil {
			cfg.TLS.CertFile, cfg.TLS.KeyFile = agent.file("agent.crt"), agent.file("agent.key")
		}
		return newClientOf(t, cfg)
	}
	good := client(ca, ca)
	store := newStore(t, good)
	require.NoError(t, store.Init(t.Context()))
	update(t, store, set("a", "1"))
	r := newReceiver()
	start(t, quick(good, nil), r)
	r.wait(t, "a=1")
	for name, bad := range map[string]*etcd.Client{
		"no certificate": client(ca, nil), "of another authority": client(ca, foreign),
		"a server that is not trusted": client(foreign, ca),
	} {
		require.Error(t, newStore(t, bad).Init(t.Context()), name)
	}
	bad := newReceiver()
	w := &witness{}
	start(t, quick(client(foreign, ca), w), bad)
	w.waitLost(t, "not trusted", func(error) bool { return true })
	require.False(t, bad.isInSync())
}

// users switches authentication on for two users: root, and agent, which may read the state and
// write the reports of node n1.
func users(t testing.TB, srv *server) *clientv3.Client {
	raw, ctx := rawClient(t, srv.url), context.Background()
	try := func(_ any, err error) { require.NoError(t, err) }
	try(raw.UserAdd(ctx, "root", "master"))
	try(raw.UserGrantRole(ctx, "root", "root"))
	try(raw.UserAdd(ctx, "agent", "hush"))
	try(raw.RoleAdd(ctx, "agent"))
	try(raw.UserGrantRole(ctx, "agent", "agent"))
	grant := func(prefix string, what clientv3.PermissionType) {
		prefix = "/wayleave/test/" + prefix
		try(raw.RoleGrantPermission(ctx, "agent", prefix, clientv3.GetPrefixRangeEnd(prefix), what))
	}
	grant("state/", clientv3.PermissionType(clientv3.PermRead))
	grant("settings/", clientv3.PermissionType(clientv3.PermRead))
	grant("agents/n1", clientv3.PermissionType(clientv3.PermReadWrite))
	grant("endpoints/n1/", clientv3.PermissionType(clientv3.PermReadWrite))
	try(raw.AuthEnable(ctx))
	return rootClient(t, srv)
}

// rootClient is a rawClient of the user root.
func rootClient(t testing.TB, srv *server) *clientv3.Client {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{
		Endpoints: []string{srv.url}, Username: "root", Password: "master", Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestUsersAndRoles(t *testing.T) {
	srv, _, open := newStoreOn(t)
	update(t, open, set("a", "1"))
	root := users(t, srv)
	user := func(name string, password etcd.Secret) *etcd.Client {
		return newClientOf(t, etcd.Config{
			Endpoints: []string{srv.url}, Cluster: "test", Username: name, Password: password,
			RequestTimeout: 2 * time.Second,
		})
	}
	admin := newStore(t, user("root", "master"))
	require.Error(t, open.Init(t.Context()), "a client without a user has no permission")

	// An agent can read the state and write reports, but nothing else.
	agent := user("agent", "hush")
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(agent, w), r)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the source: %+v", source.Stats())
		}
	})
	r.wait(t, "a=1")
	r.waitInSync(t)
	n1, _ := newReporter(t, agent, "n1")
	n1.Set(etcd.Report{Revision: source.Stats().Delivered, History: readingOf(t, agent), InSync: true})
	awaitStored(t, root, "the report", func() bool {
		return applied(t, admin, profile("a", "").Key()) == "1/1 n1:applied"
	})
	_, err := newStore(t, agent).Put(t.Context(), profile("a", "2"), etcd.Any)
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	_, err = newStore(t, agent).Settings(t.Context(), "n1")
	require.NoError(t, err)

	// A Source with a wrong password retries, because the password may become valid. Until then it
	// is not in sync.
	wrong, late := &witness{}, newReceiver()
	start(t, quick(user("agent", "secret!"), wrong), late)
	wrong.waitLost(t, "refused", func(err error) bool {
		require.NotContains(t, err.Error(), "secret!")
		return errors.Is(err, rpctypes.ErrAuthFailed)
	})
	require.False(t, late.isInSync())
	_, err = root.UserChangePassword(t.Context(), "agent", "secret!")
	require.NoError(t, err)
	late.wait(t, "a=1")
	late.waitInSync(t)

	// When a role is revoked, Lost is called and the state stays. When the role is granted again,
	// the Source continues.
	w.clear()
	r.take()
	_, err = root.UserRevokeRole(t.Context(), "agent", "agent")
	require.NoError(t, err)
	w.waitLost(t, "no permission", func(error) bool { return true })
	require.NotZero(t, source.Stats().Failures[etcd.FailureRefused])
	require.Equal(t, "a=1", r.text())
	w.clear()
	_, err = root.UserChangePassword(t.Context(), "agent", "hush")
	require.NoError(t, err)
	_, err = root.UserGrantRole(t.Context(), "agent", "agent")
	require.NoError(t, err)
	w.await(t, "found", w.isFound)
	update(t, admin, set("a", "2"))
	r.wait(t, "a=2")
	require.Equal(t, []string{"a=2"}, r.take())
}

// A watch continues after the role of its user is revoked. The heartbeat of the Source detects it.
func TestRevokedRoleIsDetectedDuringWatch(t *testing.T) {
	srv := newServer(t, func(cfg *embed.Config) { cfg.WatchProgressNotifyInterval = 100 * time.Millisecond })
	open := newStore(t, newClient(t, srv.url))
	require.NoError(t, open.Init(t.Context()))
	root := users(t, srv)
	agent := newClientOf(t, etcd.Config{
		Endpoints: []string{srv.url}, Cluster: "test", Username: "agent", Password: "hush",
	})
	w, r := &witness{}, newReceiver()
	source, _ := start(t, quick(agent, w), r)
	r.waitInSync(t)
	elsewhere, err := root.Put(t.Context(), "/elsewhere", "1")
	require.NoError(t, err)
	eventually(t, "the watch to report it", func() bool {
		return source.Stats().Read >= etcd.Revision(elsewhere.Header.Revision)
	})
	_, err = root.UserRevokeRole(t.Context(), "agent", "agent")
	require.NoError(t, err)
	w.waitLost(t, "no permission", func(error) bool { return true })
	w.clear()
	w.await(t, "ten heartbeats", func() bool { return source.Stats().Failures[etcd.FailureRefused] > 10 })
	require.False(t, w.isFound())
	require.False(t, source.Stats().Connected)
}

// A restarted server has lost the tokens that it issued to users. Source and Reporter authenticate
// again.
func TestUsersAuthenticateAgainAfterRestart(t *testing.T) {
	srv, _, open := newStoreOn(t)
	update(t, open, set("a", "1"))
	users(t, srv)
	user := func(name string, password etcd.Secret) *etcd.Client {
		return newClientOf(t, etcd.Config{
			Endpoints: []string{srv.url}, Cluster: "test", Username: name, Password: password,
			RequestTimeout: time.Second,
		})
	}
	agent := user("agent", "hush")
	w := &witness{}
	n1 := newReportingNode(t, "n1", agent, w, 30*time.Second)
	n1.wait(t, "a=1")
	srv.stop()
	w.waitLost(t, "stopped", func(error) bool { return true })
	w.clear()
	srv.start(t)
	admin := newStore(t, user("root", "master"))
	update(t, admin, set("a", "2"))
	n1.wait(t, "a=2")
	w.await(t, "found", w.isFound)
	awaitStored(t, rootClient(t, srv), "the report", func() bool {
		return applied(t, admin, profile("a", "").Key()) == "1/1 n1:applied"
	})
	require.Equal(t, uint64(1), n1.source.Stats().Lists)
}

func TestSecretsAreNotPrinted(t *testing.T) {
	cfg := etcd.Config{Endpoints: []string{"https://10.0.0.1:2379"}, Username: "u", Password: "hush"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "config", cfg, "password", cfg.Password)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", cfg, "password", cfg.Password)
	encoded, err := json.Marshal(cfg.Password)
	require.NoError(t, err)
	log.Write(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+" "+verb, cfg, cfg.Password)
	}
	client := newClientOf(t, cfg)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		fmt.Fprintf(&log, verb+" "+verb, client, etcd.SourceConfig{Client: client})
	}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "client", client)
	require.NotContains(t, log.String(), "hush")
	require.NotContains(t, log.String(), fmt.Sprintf("%x", "hush"))
	require.Contains(t, log.String(), "(secret)")
	require.Empty(t, fmt.Sprint(etcd.Secret("")))
}

// The scheme of an endpoint has the same meaning in upper and lower case.
func TestSchemeInCapitals(t *testing.T) {
	ca := newAuthority(t)
	ca.issue(t, "server")
	ca.issue(t, "agent")
	srv := newServer(t, ca.protect(t))
	store := newStore(t, newClientOf(t, etcd.Config{
		Endpoints: []string{strings.Replace(srv.url, "https", "HTTPS", 1)},
		Cluster:   "test", RequestTimeout: 2 * time.Second,
		TLS: etcd.TLS{CAFile: ca.file("ca.crt"), CertFile: ca.file("agent.crt"), KeyFile: ca.file("agent.key")},
	}))
	require.NoError(t, store.Init(t.Context()))

	// The password is not sent to a listener without TLS either.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	first := make(chan byte, 1)
	go func() {
		defer close(first)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := make([]byte, 1)
		if _, err := io.ReadFull(conn, b); err == nil {
			first <- b[0]
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	user := newClientOf(t, etcd.Config{
		Endpoints: []string{"HTTPS://" + listener.Addr().String()}, Cluster: "test", Username: "u", Password: "hush",
		RequestTimeout: time.Second,
	})
	require.Error(t, newStore(t, user).Init(t.Context()))
	require.Equal(t, byte(22), <-first, "a TLS handshake")
}
