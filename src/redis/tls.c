/*-------------------------------------------------------------------------
 *
 * tls.c
 *		TLS on a connection, where hiredis has it (1.0 and later, built with
 *		hiredis_ssl).
 *
 * hiredis alone would check that the certificate is signed by somebody it
 * trusts, and not that it is the host's.  So the session is made here, with
 * the name or address of the node to be verified, and handed to hiredis.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "tls.h"

#ifdef FENCING_REDIS_TLS

#include <arpa/inet.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static SSL_CTX *make_context(Wire *wire);
static bool expect_host(SSL *ssl, const char *host);

bool
tls_available(void)
{
	return true;
}

bool
tls_start(Wire *wire)
{
	const char *host = wire->node->address.host;
	SSL_CTX *context = make_context(wire);
	SSL *ssl;

	if (context == NULL)
		return false;
	ssl = SSL_new(context);
	SSL_CTX_free(context); /* the session keeps it */
	if (ssl == NULL || (host != NULL && !expect_host(ssl, host)))
	{
		SSL_free(ssl);
		wire_fail(wire, "TLS could not be set up");
		return false;
	}
	wire->tls = ssl;
	if (redisInitiateSSL(wire->redis, ssl) != REDIS_OK)
	{
		if (!tls_problem(wire))
			wire_fail(wire, "TLS refused: %s", wire->redis->errstr);
		return false;
	}
	return true;
}

bool
tls_problem(Wire *wire)
{
	long result;

	if (wire->tls == NULL)
		return false;
	result = SSL_get_verify_result(wire->tls);
	if (result == X509_V_OK)
		return false;
	wire_fail(wire, "TLS refused: %s", X509_verify_cert_error_string(result));
	return true;
}

static SSL_CTX *
make_context(Wire *wire)
{
	const Options *options = &wire->server->options;
	SSL_CTX *context;
	const char *bad = NULL;

	ERR_clear_error();
	context = SSL_CTX_new(TLS_client_method());
	if (context == NULL)
	{
		wire_fail(wire, "TLS could not be set up");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (options->tls_ca != NULL
			? SSL_CTX_load_verify_locations(context, options->tls_ca, NULL) !=
				1
			: SSL_CTX_set_default_verify_paths(context) != 1)
		bad = "tls_ca";
	else if (options->tls_cert != NULL &&
			 SSL_CTX_use_certificate_chain_file(context, options->tls_cert) !=
				 1)
		bad = "tls_cert";
	else if (options->tls_key != NULL &&
			 SSL_CTX_use_PrivateKey_file(context, options->tls_key,
										 SSL_FILETYPE_PEM) != 1)
		bad = "tls_key";
	ERR_clear_error();
	if (bad == NULL)
		return context;
	SSL_CTX_free(context);
	wire_fail(wire,
			  "TLS could not be set up: the file of option \"%s\" cannot be used",
			  bad);
	return NULL;
}

/* The certificate must be that of this name or address. */
static bool
expect_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 ||
		inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1 &&
		SSL_set_tlsext_host_name(ssl, host) == 1;
}

#else /* no TLS */

bool
tls_available(void)
{
	return false;
}

bool
tls_start(Wire *wire)
{
	wire_fail(wire, "TLS is not available");
	return false;
}

bool
tls_problem(Wire *wire)
{
	return false;
}

#endif
