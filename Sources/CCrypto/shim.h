#pragma once
#include <openssl/evp.h>
#include <openssl/x509_vfy.h>
