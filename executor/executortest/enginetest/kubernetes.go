package enginetest

import "testing"

// ClusterPrograms are those that a cluster of Kubernetes is made of.
type ClusterPrograms struct{ Etcd, APIServer, Scheduler string }

// Kubernetes returns the programs of a cluster, which scripts/kubernetes.sh has built, and etcd. It skips the test where one is missing, and
// where there is no container engine for the pods.
func Kubernetes(t testing.TB) ClusterPrograms {
	t.Helper()
	Host(t)
	p := ClusterPrograms{Etcd: Program(t, "etcd"), APIServer: built(t, "kubernetes/kube-apiserver"), Scheduler: built(t, "kubernetes/kube-scheduler")}
	if p.APIServer == "" || p.Scheduler == "" {
		Skip(t, "kube-apiserver and kube-scheduler, which scripts/kubernetes.sh builds")
	}
	return p
}

// Helm returns the path of Helm, which scripts/helm.sh has built, and skips the test where there is none.
func Helm(t testing.TB) string {
	t.Helper()
	return fromScript(t, "helm")
}
