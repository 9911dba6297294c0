// Package nestingv0 holds the messages and the service of GitLab's nesting, which makes virtual machines on a host. It is generated from
// nesting.proto; nesting/client calls it.
package nestingv0
